// Command pkgsize fails if a package has more lines than its limit, because a package should have
// one concern. It counts the lines of Go files, except tests and generated files.
//
//	pkgsize [-limit 2500] [-limit PACKAGE=1900]... [FOLDER]
package main

import (
	"bytes"
	"errors"
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
	"strconv"
	"strings"
)

func main() {
	most := limits{"": 2500}
	flag.Var(most, "limit", "most lines of a package, or PACKAGE=LINES for that of a folder (default 2500)")
	flag.Parse()
	folder := "."
	if flag.NArg() > 0 {
		folder = flag.Arg(0)
	}
	if err := run(os.DirFS(folder), most); err != nil {
		fmt.Fprintln(os.Stderr, "pkgsize:", err)
		os.Exit(1)
	}
}

// limits are the most lines of packages by folder. The limit of the empty folder is that of all
// other packages.
type limits map[string]int

// Set takes LINES, or PACKAGE=LINES.
func (l limits) Set(value string) error {
	pkg, number, own := strings.Cut(value, "=")
	if !own {
		pkg, number = "", value
	}
	n, err := strconv.Atoi(number)
	l[pkg] = n
	return err
}

func (l limits) String() string { return fmt.Sprint(map[string]int(l)) }

// of returns the limit of a package.
func (l limits) of(pkg string) int {
	if n, ok := l[pkg]; ok {
		return n
	}
	return l[""]
}

// run returns an error that names the packages below tree with more lines than their limit, and
// the limits of packages that do not exist.
func run(tree fs.FS, most limits) error {
	lines, err := count(tree)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		return errors.New("no Go files found")
	}
	var large []string
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		if n := lines[pkg]; n > most.of(pkg) {
			large = append(large, fmt.Sprintf("package %s has %d lines of %d", pkg, n, most.of(pkg)))
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(most)) {
		if lines[pkg] == 0 && pkg != "" {
			large = append(large, fmt.Sprintf("package %s, which has a limit, is not there", pkg))
		}
	}
	if large != nil {
		return fmt.Errorf("%s; tests and generated files do not count", strings.Join(large, ", "))
	}
	return nil
}

// count returns the number of lines of packages by folder.
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
