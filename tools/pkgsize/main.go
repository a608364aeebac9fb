// Command pkgsize fails if a package has more lines than it may: one that outgrew its
// single concern is divided. Counted are the lines of Go files that people write, that
// is without tests and generated files.
//
//	pkgsize [-limit 2500] [FOLDER]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	limit := flag.Int("limit", 2500, "most lines of a package")
	flag.Parse()
	folder := "."
	if flag.NArg() > 0 {
		folder = flag.Arg(0)
	}
	if err := run(os.DirFS(folder), *limit); err != nil {
		fmt.Fprintln(os.Stderr, "pkgsize:", err)
		os.Exit(1)
	}
}

// run returns an error that names the packages below tree with more lines than limit.
func run(tree fs.FS, limit int) error {
	lines, err := count(tree)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return fmt.Errorf("no Go files found")
	}
	var large []string
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		if n := lines[pkg]; n > limit {
			large = append(large, fmt.Sprintf("package %s has %d lines", pkg, n))
		}
	}
	if large != nil {
		return fmt.Errorf("%s: the limit is %d, without tests and generated files", strings.Join(large, ", "), limit)
	}
	return nil
}

// count returns the lines of packages by folder.
func count(tree fs.FS) (map[string]int, error) {
	lines := make(map[string]int)
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(parsed) {
			lines[path.Dir(file)] += bytes.Count(text, []byte("\n"))
		}
		return nil
	})
	return lines, err
}
