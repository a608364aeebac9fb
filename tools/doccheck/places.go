package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// developerPages are the pages that send their readers to files of the repository.
var developerPages = []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/changing.md", "docs/glossary.md", "docs/decisions/*.md"}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// A place is a path in backticks, and perhaps a declaration of a Go file, or a word of another one:
	// `internal/session/session.go:dispatch`.
	place     = regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+)/?(?::([\\w.]+))?`")
	rootPlace = regexp.MustCompile("`(\\w+\\.go):([\\w.]+)`")
)

// places checks the files and folders in the pages for developers. A path counts if the repository has its first folder.
func (c *checker) places() error {
	for _, pattern := range developerPages {
		names, err := fs.Glob(c.tree, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			page, err := fs.ReadFile(c.tree, name)
			if err != nil {
				return err
			}
			text := codeBlock.ReplaceAllString(string(page), "")
			for _, m := range append(place.FindAllStringSubmatch(text, -1), rootPlace.FindAllStringSubmatch(text, -1)...) {
				if err := c.placeExists(m[1], m[2]); err != nil {
					c.errs = append(c.errs, fmt.Errorf("%s: %w", name, err))
				}
			}
		}
	}
	return nil
}

func (c *checker) placeExists(file, word string) error {
	if top, _, below := strings.Cut(file, "/"); below {
		if _, err := fs.Stat(c.tree, top); err != nil || top[0] == '.' {
			return nil // a path of something else, such as a request, or of a file that a command writes
		}
	}
	if _, err := fs.Stat(c.tree, path.Clean(file)); err != nil {
		return fmt.Errorf("there is no %s", file)
	}
	if word == "" {
		return nil
	}
	text, err := fs.ReadFile(c.tree, file)
	if err != nil {
		return err
	}
	if path.Ext(file) == ".go" {
		return declares(file, text, word)
	}
	for part := range strings.SplitSeq(word, ".") {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(part) + `\b`).Match(text) {
			return fmt.Errorf("%s has no %s", file, part)
		}
	}
	return nil
}

// declares returns an error unless the file declares the word: a function, method, type, constant or variable, or
// a Type.Method or Type.Field.
func declares(file string, text []byte, word string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, decl := range f.Decls {
		if slices.Contains(names(decl), word) {
			return nil
		}
	}
	return fmt.Errorf("%s does not declare %s", file, word)
}

func names(decl ast.Decl) (all []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		all = append(all, d.Name.Name)
		if d.Recv != nil {
			all = append(all, receiver(d.Recv.List[0].Type)+"."+d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					all = append(all, id.Name)
				}
			case *ast.TypeSpec:
				all = append(all, s.Name.Name)
				for _, id := range members(s.Type) {
					all = append(all, s.Name.Name+"."+id.Name)
				}
			}
		}
	}
	return all
}

// receiver is the name of the type behind a pointer and before type parameters.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// members are the fields of a struct, or the methods of an interface.
func members(t ast.Expr) (all []*ast.Ident) {
	var list *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		all = append(all, f.Names...)
	}
	return all
}
