package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is the import path of the repository's root. The path of every package is this and its folder.
const module = "github.com/gyrohq/gyro"

type tree struct {
	root     string
	modules  []string // their folders, as in go.work
	packages map[string]*goPackage
}

// goPackage is a package as go list prints it, and the facts that its tests state about themselves.
type goPackage struct {
	ImportPath, Dir                       string
	Imports, TestImports, XTestImports    []string
	TestGoFiles, XTestGoFiles, EmbedFiles []string
	// Reads are the files and folders outside of the package's folder in string literals of its tests, from the root.
	Reads []string
	// Short: tests ask for testing.Short. Distorted: the race detector distorts some tests.
	Short, Distorted bool
}

func readTree(ctx context.Context, r *runner) (*tree, error) {
	t := &tree{root: r.root, packages: make(map[string]*goPackage)}
	printed, err := r.command(ctx, ".", nil, "go", "work", "edit", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("go work edit: %w", err)
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(printed, &work); err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		t.modules = append(t.modules, path.Clean(use.DiskPath))
	}
	argv := append([]string{"go", "list", "-e", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,TestGoFiles,XTestGoFiles"}, t.patterns()...)
	cmd := r.command(ctx, ".", nil, argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if printed, err = cmd.Output(); err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &stderr)
	}
	for decoder := json.NewDecoder(bytes.NewReader(printed)); ; {
		p := new(goPackage)
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			return t, nil
		} else if err != nil {
			return nil, err
		}
		if err := p.readTests(t.root); err != nil {
			return nil, err
		}
		t.packages[p.ImportPath] = p
	}
}

func (t *tree) patterns() (patterns []string) {
	for _, m := range t.modules {
		patterns = append(patterns, "./"+path.Join(m, "..."))
	}
	return patterns
}

var (
	short     = regexp.MustCompile(`\btesting\.Short\(\)`)
	distorted = regexp.MustCompile(`(?m)^func Test\w*(` + distortedNames + `)`)
	outside   = regexp.MustCompile(`"((?:\.\./)+[\w./-]+)`)
)

// distortedNames are words in the names of tests whose figures the race detector distorts.
const distortedNames = "Alloc|Budget"

func (p *goPackage) readTests(root string) error {
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		p.Short = p.Short || short.Match(text)
		p.Distorted = p.Distorted || distorted.Match(text)
		for _, m := range outside.FindAllSubmatch(text, -1) {
			read, err := filepath.Rel(root, filepath.Join(p.Dir, string(m[1])))
			if err == nil && !strings.HasPrefix(read, "..") {
				p.Reads = append(p.Reads, filepath.ToSlash(read))
			}
		}
	}
	return nil
}

func (p *goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

func (p *goPackage) uses(folders ...string) bool {
	return slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), func(imported string) bool {
		return slices.Contains(folders, strings.TrimPrefix(imported, module+"/"))
	})
}

func (p *goPackage) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func (t *tree) choose(keep func(*goPackage) bool) (names []string) {
	for name, p := range t.packages {
		if keep(p) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p *goPackage) endToEnd() bool { return strings.HasPrefix(p.folder()+"/", "e2e/") }

func (p *goPackage) service() bool {
	return p.uses("broker/redis/redistest", "broker/postgres/postgrestest")
}

func unit(t *tree) []string {
	return t.choose(func(p *goPackage) bool { return p.tested() && !p.endToEnd() && !p.service() && len(p.foreign(t)) == 0 })
}

// readers are the packages whose tests need no service and read files outside of their module.
func readers(t *tree) []string {
	return t.choose(func(p *goPackage) bool { return p.tested() && !p.endToEnd() && !p.service() && len(p.foreign(t)) > 0 })
}

func (p *goPackage) foreign(t *tree) []string {
	own := t.moduleOf(p.folder())
	return slices.DeleteFunc(slices.Clone(p.Reads), func(read string) bool { return t.moduleOf(read) == own })
}

func (t *tree) moduleOf(name string) string {
	best := "."
	for _, m := range t.modules {
		if m != "." && strings.HasPrefix(name+"/", m+"/") && (best == "." || len(m) > len(best)) {
			best = m
		}
	}
	return best
}

func services(t *tree) []string {
	return t.choose(func(p *goPackage) bool { return p.tested() && !p.endToEnd() && p.service() })
}

func budgets(t *tree) []string {
	return t.choose(func(p *goPackage) bool { return p.Distorted && !p.endToEnd() })
}

// long are packages whose tests do more without -short.
func long(t *tree) []string {
	return t.choose(func(p *goPackage) bool { return p.Short && !p.endToEnd() })
}

// apart are the packages of the module e2e that are a step of their own, or none.
var apart = []string{"docs", "faults", "gosdk", "install", "million", "packages", "proxies", "soak", "suites"}

func interop(t *tree) []string {
	return t.choose(func(p *goPackage) bool {
		_, rest, _ := strings.Cut(p.folder(), "/")
		first, _, _ := strings.Cut(rest, "/")
		return p.tested() && p.endToEnd() && !slices.Contains(apart, first)
	})
}
