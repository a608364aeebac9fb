package config

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// readThough are the fields whose keys are all marked, and that code looks at all the
// same: to refuse what they ask for, or because it is ahead of what needs it.
var readThough []string

// TestKeysAreRead holds the marks of the schema against the code: a key that nobody reads
// says why it has no effect (idle).
func TestKeysAreRead(t *testing.T) {
	read := readFields(t)
	inUse, marked := map[string]bool{}, map[string]bool{}
	visitKeys("", reflect.TypeFor[Config](), false, func(key, field string, mark bool) {
		if mark {
			marked[field] = true
			return
		}
		if inUse[field] = true; !read[field] {
			t.Errorf("nobody reads %s: is it supported?", key)
		}
	})
	var though []string
	for _, field := range slices.Sorted(maps.Keys(marked)) {
		if read[field] && !inUse[field] {
			though = append(though, field)
		}
	}
	if !slices.Equal(though, readThough) {
		t.Errorf("read, though their keys are marked: %q, want %q", though, readThough)
	}
}

// visitKeys visits the leaves of a section, and whether they are marked.
func visitKeys(prefix string, section reflect.Type, marked bool, visit func(key, field string, marked bool)) {
	for i := range section.NumField() {
		f := section.Field(i)
		if f.Anonymous {
			visitKeys(prefix, f.Type, marked, visit)
			continue
		}
		if grant := f.Tag.Get("grant"); grant != "" && grant != "-" { // package channels reads it by reflection
			continue
		}
		key := strings.TrimPrefix(prefix+"."+f.Tag.Get("key"), ".")
		mark := marked || f.Tag.Get("idle") != ""
		value := f.Type
		if value.Kind() == reflect.Slice {
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct {
			visitKeys(key, value, mark, visit)
			continue
		}
		visit(key, fieldID(section.Name(), f.Name, string(f.Tag)), mark)
	}
}

// fieldID names a field of a struct. Those of structs without a name differ in their tags.
func fieldID(owner, field, tag string) string {
	if owner == "" {
		return tag + field
	}
	return owner + "." + field
}

// modulePath is the import path of the server's module, whose folder is two above this one.
const modulePath = "github.com/gyrohq/gyro/server"

// judges are the files that look at keys without doing what they say.
var judges = map[string]bool{"config.go": true}

// describes tells whether a package has structs of the schema.
func describes(pkg string) bool {
	return slices.Contains([]string{"/config", "/config/engines", "/config/material"}, strings.TrimPrefix(pkg, modulePath+"/internal"))
}

// readFields returns the fields of the schema's structs that the server's code selects.
func readFields(t *testing.T) map[string]bool {
	t.Helper()
	r := &reader{t: t, fset: token.NewFileSet(), packages: map[string]*types.Package{}, read: map[string]bool{}}
	err := filepath.WalkDir("../..", func(folder string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() != "testdata" {
			_, err = r.Import(path.Join(modulePath, filepath.ToSlash(strings.TrimPrefix(folder, "../.."))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.read
}

// outside is what has to be known of packages outside of the server.
var outside = map[string]string{
	"time":        "type Duration int64",
	"sync/atomic": "type Pointer[T any] struct{ p *T }\nfunc (p *Pointer[T]) Load() *T { return p.p }",
}

// reader imports packages of the server from their source, and others as empty ones: what
// cannot be known of their types does not matter.
type reader struct {
	t        *testing.T
	fset     *token.FileSet
	packages map[string]*types.Package
	read     map[string]bool
}

// Import implements types.Importer.
func (r *reader) Import(pkg string) (*types.Package, error) {
	if p := r.packages[pkg]; p != nil {
		return p, nil
	}
	var files []*ast.File
	var err error
	switch within, own := strings.CutPrefix(pkg, modulePath); {
	case own:
		files, err = r.parse(filepath.Join("../..", within))
	default:
		f, failed := parser.ParseFile(r.fset, pkg, "package "+path.Base(pkg)+"\n"+outside[pkg], 0)
		files, err = []*ast.File{f}, failed
	}
	if err != nil || len(files) == 0 {
		return nil, err
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}}
	cfg := types.Config{Importer: r, Error: func(error) {}} // what others export is not known
	p, _ := cfg.Check(pkg, r.fset, files, info)
	r.packages[pkg] = p
	for at, s := range info.Selections {
		file := r.fset.Position(at.Pos()).Filename
		base := filepath.Base(file)
		if describes(pkg) && (judges[base] || strings.HasPrefix(base, "validate")) {
			continue
		}
		r.note(s)
	}
	return p, nil
}

// parse returns the files of a package, as this system builds it.
func (r *reader) parse(folder string) (files []*ast.File, err error) {
	found, err := build.ImportDir(folder, 0)
	if none := new(build.NoGoError); errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range found.GoFiles {
		f, err := parser.ParseFile(r.fset, filepath.Join(folder, name), nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// note notes the field that is selected and those that it is promoted through.
func (r *reader) note(s *types.Selection) {
	if s.Kind() != types.FieldVal {
		return
	}
	owner := s.Recv()
	for _, i := range s.Index() {
		if p, ok := owner.Underlying().(*types.Pointer); ok {
			owner = p.Elem()
		}
		fields, ok := owner.Underlying().(*types.Struct)
		if !ok {
			return
		}
		name := ""
		if named, ok := types.Unalias(owner).(*types.Named); ok {
			name = named.Obj().Name()
		}
		f := fields.Field(i)
		if f.Pkg() != nil && describes(f.Pkg().Path()) {
			r.read[fieldID(name, f.Name(), fields.Tag(i))] = true
		}
		owner = f.Type()
	}
}
