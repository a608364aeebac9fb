package mobile

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// check type-checks the package without what it imports, so that types of other packages are invalid ones.
func check(t *testing.T, source any) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	names := []string{"source.go"}
	if source == nil {
		var err error
		if names, err = filepath.Glob("*.go"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	config := types.Config{IgnoreFuncBodies: true, Importer: none{}, Error: func(error) {}}
	pkg, _ := config.Check("mobile", fset, files, nil) // the errors are about imports
	return pkg
}

type none struct{}

func (none) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// unsupported are the exported identifiers that gomobile leaves out, or refuses.
func unsupported(pkg *types.Package) (names []string) {
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			if b, ok := o.Type().(*types.Basic); !ok || b.Info()&(types.IsNumeric|types.IsString|types.IsBoolean) == 0 {
				names = append(names, name)
			}
		case *types.Func:
			if !signature(pkg, o.Signature()) {
				names = append(names, name)
			}
		case *types.TypeName:
			for _, member := range members(pkg, o) {
				names = append(names, name+member)
			}
		default: // variables would be shared with no lock
			names = append(names, name)
		}
	}
	return names
}

// members of a type that are not supported; an empty name stands for the type.
func members(pkg *types.Package, o *types.TypeName) (names []string) {
	named, ok := o.Type().(*types.Named)
	if !ok || o.IsAlias() || named.TypeParams() != nil {
		return []string{""}
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if f.Exported() && (f.Embedded() || !supported(pkg, f.Type())) {
				names = append(names, "."+f.Name())
			}
		}
	case *types.Interface:
		for m := range u.Methods() {
			if !m.Exported() || !signature(pkg, m.Signature()) {
				names = append(names, "."+m.Name())
			}
		}
	default:
		return []string{""}
	}
	for m := range named.Methods() {
		if m.Exported() && (!signature(pkg, m.Signature()) || slices.Contains([]string{"Wait", "Notify", "NotifyAll", "GetClass", "HashCode", "Finalize"}, m.Name())) {
			names = append(names, "."+m.Name())
		}
	}
	return names
}

// signature reports whether a function has supported parameters, and at most two results, the second an error.
func signature(pkg *types.Package, s *types.Signature) bool {
	if s.Variadic() || s.TypeParams() != nil || s.Results().Len() > 2 {
		return false
	}
	for v := range s.Params().Variables() {
		if !supported(pkg, v.Type()) {
			return false
		}
	}
	for v := range s.Results().Variables() {
		if !supported(pkg, v.Type()) {
			return false
		}
	}
	return s.Results().Len() < 2 || isError(s.Results().At(1).Type())
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// supported are signed integers, floats, strings, booleans, bytes, pointers to structs of the package, and its
// interfaces.
func supported(pkg *types.Package, t types.Type) bool {
	own := func(t types.Type) (types.Type, bool) {
		named, ok := t.(*types.Named)
		if !ok || named.Obj().Pkg() != pkg || !named.Obj().Exported() {
			return nil, false
		}
		return named.Underlying(), true
	}
	switch t := t.(type) {
	case *types.Basic:
		switch t.Kind() {
		case types.Bool, types.Int, types.Int8, types.Int16, types.Int32, types.Int64, types.Uint8, types.Float32, types.Float64, types.String:
			return true
		}
		return false
	case *types.Slice:
		return types.Identical(t.Elem(), types.Typ[types.Byte])
	case *types.Pointer:
		u, ok := own(t.Elem())
		_, isStruct := u.(*types.Struct)
		return ok && isStruct
	}
	u, ok := own(t)
	_, isInterface := u.(*types.Interface)
	return isError(t) || ok && isInterface
}

// TestFlat: gomobile accepts all that is exported, and the check notices what it does not.
func TestFlat(t *testing.T) {
	t.Parallel()
	if names := unsupported(check(t, nil)); len(names) > 0 {
		t.Errorf("gomobile bind does not support %s", strings.Join(names, ", "))
	}
	pkg := check(t, `package mobile
import "time"
const Good = 1
const Bad time.Duration = 1
var Global int
type Kind string
type Fine interface { On(a int, b []byte) (string, error) }
type Func interface { On(func()) }
type Struct struct { A int; B map[string]string; C []string; D chan int; E uint64; F *Struct; G Fine; h map[int]int; I Other; J time.Time }
type Generic[T any] struct{}
type Other struct{}
func (*Struct) M(a ...int) {}
func (*Struct) N() (int, int) { return 0, 0 }
func (*Struct) O() (*Struct, error) { return nil, nil }
func (*Struct) Wait() {}
func F1() (int, string, error) { return 0, "", nil }
func F2(any) {}
func F3() (*Struct, error) { return nil, nil }
`)
	want := "Bad F1 F2 Func.On Generic Global Kind Struct.B Struct.C Struct.D Struct.E Struct.I Struct.J Struct.M Struct.N Struct.Wait"
	if got := strings.Join(unsupported(pkg), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestBindings: gobind makes classes for Java and Objective-C. GOBIND names the program, GOBIND_MODULE the folder of a
// module that requires its runtime and this package; "make mobile" makes both.
func TestBindings(t *testing.T) {
	t.Parallel()
	program := os.Getenv("GOBIND")
	if program == "" {
		t.Skip("GOBIND is not set: make mobile")
	}
	out := t.TempDir()
	cmd := exec.Command(program, "-lang=java,objc", "-outdir="+out, "github.com/gyrohq/gyro/client/mobile")
	cmd.Dir = os.Getenv("GOBIND_MODULE")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var java, objc strings.Builder
	err := filepath.Walk(out, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		switch filepath.Ext(path) {
		case ".java":
			java.Write(text)
		case ".h":
			objc.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if skipped := regexp.MustCompile(`(?m)^.*(skipped|unsupported).*$`).FindAllString(java.String()+objc.String(), -1); len(skipped) > 0 {
		t.Errorf("gobind leaves out\n%s", strings.Join(skipped, "\n"))
	}
	pkg := check(t, nil)
	for _, name := range pkg.Scope().Names() {
		o, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || !o.Exported() {
			continue
		}
		if !regexp.MustCompile(`(class|interface) `+name+`\b`).MatchString(java.String()) || !strings.Contains(objc.String(), "Mobile"+name) {
			t.Errorf("there is no %s", name)
		}
		for m := range o.Type().(*types.Named).Methods() {
			lower := strings.ToLower(m.Name()[:1]) + m.Name()[1:]
			if m.Exported() && !regexp.MustCompile(`(?i)\b`+lower+`\(`).MatchString(java.String()) {
				t.Errorf("there is no %s.%s in Java", name, m.Name())
			}
		}
	}
}
