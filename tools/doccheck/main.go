// Command doccheck fails if a comment, or a page for developers, sends its reader to something that this repository does
// not have:
//
//   - a comment of a Go file or a schema that names a Markdown page which is not there. A page is
//     named by its path in the repository (docs/recovery.md), or from the file's own folder.
//   - an alias for a type in a public package, if "go doc" of the alias does not lead to the
//     type's fields: the type must be in a public package and be no alias itself, and the
//     comment names it as "go doc IMPORTPATH.NAME" and names all its exported fields.
//   - a public package without a comment that says its purpose.
//   - a page for developers that names a file or a folder that is not there, a name that a Go file does not declare, or
//     a word that another file does not have.
//
// It is called with the folder of the repository: doccheck [FOLDER].
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of the repository's root. The path of every other package, whatever
// its module, is this and its folder.
const module = "github.com/gyrohq/gyro"

func main() {
	folder := "."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(os.DirFS(folder)); err != nil {
		fmt.Fprintf(os.Stderr, "doccheck: %v\n", err)
		os.Exit(1)
	}
}

type checker struct {
	tree  fs.FS
	set   *token.FileSet
	files map[string][]*ast.File // of public packages, without tests, by folder
	read  int
	errs  []error
}

// run returns an error that names everything that is wrong below tree.
func run(tree fs.FS) error {
	c := &checker{tree: tree, set: token.NewFileSet(), files: make(map[string][]*ast.File)}
	if err := fs.WalkDir(tree, ".", c.visit); err != nil {
		return err
	}
	if c.read == 0 {
		return errors.New("no Go files found")
	}
	if err := c.places(); err != nil {
		return err
	}
	for _, folder := range slices.Sorted(maps.Keys(c.files)) {
		c.described(folder)
		for _, f := range c.files[folder] {
			c.aliases(folder, f)
		}
	}
	return errors.Join(c.errs...)
}

func (c *checker) visit(file string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	name := d.Name()
	switch {
	case d.IsDir():
		if name != "." && (strings.HasPrefix(name, ".") || name == "node_modules") {
			return fs.SkipDir
		}
		return nil
	case strings.HasSuffix(name, ".proto"):
		text, err := fs.ReadFile(c.tree, file)
		for i, line := range bytes.Split(text, []byte("\n")) {
			if _, comment, ok := bytes.Cut(line, []byte("//")); ok {
				c.pages(file, i+1, string(comment))
			}
		}
		return err
	case !strings.HasSuffix(name, ".go"):
		return nil
	}
	text, err := fs.ReadFile(c.tree, file)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(c.set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	c.read++
	for _, group := range f.Comments {
		for _, comment := range group.List {
			for i, line := range strings.Split(comment.Text, "\n") {
				c.pages(file, c.set.Position(comment.Pos()).Line+i, line)
			}
		}
	}
	folder := path.Dir(file)
	if f.Name.Name != "main" && !strings.HasSuffix(name, "_test.go") && !private(folder) {
		c.files[folder] = append(c.files[folder], f)
	}
	return nil
}

func (c *checker) described(folder string) {
	name := c.files[folder][0].Name.Name
	if !slices.ContainsFunc(c.files[folder], func(f *ast.File) bool { return strings.HasPrefix(f.Doc.Text(), "Package "+name+" ") }) {
		c.errs = append(c.errs, fmt.Errorf("%s: no file has a comment that begins with \"Package %s\"", folder, name))
	}
}

func private(folder string) bool {
	return strings.Contains("/"+folder+"/", "/internal/") || strings.Contains("/"+folder+"/", "/testdata/")
}

var page = regexp.MustCompile(`[\w./-]*\w\.md(\.\w+)?\b`)

func (c *checker) pages(file string, line int, comment string) {
	for _, name := range page.FindAllString(comment, -1) {
		if path.Ext(name) != ".md" {
			continue // a template of a page, for example
		}
		_, err := fs.Stat(c.tree, path.Clean(name))
		if err != nil {
			_, err = fs.Stat(c.tree, path.Join(path.Dir(file), name))
		}
		if err != nil {
			c.errs = append(c.errs, fmt.Errorf("%s:%d: there is no page %s", file, line, name))
		}
	}
}

func (c *checker) aliases(folder string, f *ast.File) {
	for _, decl := range f.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			t := spec.(*ast.TypeSpec)
			if !t.Assign.IsValid() || !t.Name.IsExported() {
				continue
			}
			doc := t.Doc.Text()
			if doc == "" {
				doc = group.Doc.Text()
			}
			if err := c.alias(folder, f, t, doc); err != nil {
				c.errs = append(c.errs, fmt.Errorf("%s: alias %s: %w", c.set.Position(t.Pos()), t.Name.Name, err))
			}
		}
	}
}

// alias checks the alias t with the comment doc.
func (c *checker) alias(folder string, f *ast.File, t *ast.TypeSpec, doc string) error {
	var pkg, name string
	switch target := t.Type.(type) {
	case *ast.Ident:
		pkg, name = path.Join(module, folder), target.Name
	case *ast.SelectorExpr:
		pkg, name = imported(f, target.X.(*ast.Ident).Name), target.Sel.Name
	default:
		return nil // go doc shows it
	}
	where, ours := strings.CutPrefix(pkg+"/", module+"/")
	if where = path.Clean(where); !ours {
		return nil // of another module, which is documented there
	}
	if private(where) || !ast.IsExported(name) {
		return fmt.Errorf("users cannot look at %s.%s", pkg, name)
	}
	target := c.find(where, name)
	switch {
	case target == nil:
		return fmt.Errorf("%s.%s was not found", pkg, name)
	case target.Assign.IsValid():
		return fmt.Errorf("%s.%s is an alias, too: name the type that it stands for", pkg, name)
	case !strings.Contains(strings.Join(strings.Fields(doc), " "), `"go doc `+pkg+"."+name+`"`):
		return fmt.Errorf(`the comment does not have "go doc %s.%s"`, pkg, name)
	}
	if s, ok := target.Type.(*ast.StructType); ok {
		return named(s, doc)
	}
	return nil
}

func named(s *ast.StructType, doc string) error {
	var missing []string
	for _, field := range s.Fields.List {
		for _, id := range field.Names {
			if id.IsExported() && !regexp.MustCompile(`\b`+id.Name+`\b`).MatchString(doc) {
				missing = append(missing, id.Name)
			}
		}
	}
	if missing != nil {
		return fmt.Errorf("the comment does not name the fields %s", strings.Join(missing, ", "))
	}
	return nil
}

func (c *checker) find(folder, name string) *ast.TypeSpec {
	for _, f := range c.files[folder] {
		for _, decl := range f.Decls {
			if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.TYPE {
				for _, spec := range group.Specs {
					if t := spec.(*ast.TypeSpec); t.Name.Name == name {
						return t
					}
				}
			}
		}
	}
	return nil
}

func imported(f *ast.File, name string) string {
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err == nil && (i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(p) == name) {
			return p
		}
	}
	return ""
}
