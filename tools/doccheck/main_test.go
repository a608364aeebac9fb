package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository: the comments of this repository.
func TestRepository(t *testing.T) {
	if err := run(os.DirFS("../..")); err != nil {
		t.Error(err)
	}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestPages(t *testing.T) {
	tree := fstest.MapFS{
		"docs/there.md": file(""),
		"deep/local.md": file(""),
		"deep/a.go": file(`// Package deep is explained in docs/there.md, and in local.md.
package deep

/* gone.md
   is far.md */
const link = "strings.md" // up: ../docs/there.md, ../docs/no.md.
`),
		"deep/a_test.go":      file("package deep // test.md, template.md.tmpl\n"),
		"deep/a.proto":        file("// schema.md\nmessage A {}\nmessage B {} // local.md, of.md\n"),
		".cache/a.go":         file("package a // cache.md\n"),
		"node_modules/p/a.go": file("package a // node.md\n"),
	}
	want := strings.Join([]string{
		"deep/a.go:4: there is no page gone.md",
		"deep/a.go:5: there is no page far.md",
		"deep/a.go:6: there is no page ../docs/no.md",
		"deep/a.proto:1: there is no page schema.md",
		"deep/a.proto:3: there is no page of.md",
		"deep/a_test.go:1: there is no page test.md",
	}, "\n")
	if err := run(tree); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestAliases(t *testing.T) {
	const values = "// Package values has values.\npackage values\ntype (\n\tOptions struct { Size, Time int; own int }\n\t// Other has Size and Time: \"go doc github.com/gyrohq/gyro/values.Options\".\n\tOther = Options\n\tNumber int\n\thidden struct{}\n)\n"
	for name, tt := range map[string]struct{ declaration, want string }{
		"good":            {"// Options have Size and Time: \"go doc\n// github.com/gyrohq/gyro/values.Options\".\ntype Options = values.Options", ""},
		"renamed":         {"// \"go doc github.com/gyrohq/gyro/values.Number\"\ntype N = v.Number", ""},
		"in a group":      {"type (\n\t// \"go doc github.com/gyrohq/gyro/values.Number\"\n\tN = values.Number\n)", ""},
		"no type of ours": {"type Time = time.Time", ""},
		"shown":           {"type Names = []string", ""},
		"unexported":      {"type options = internal.Options", ""},
		"no alias":        {"type Options values.Options", ""},
		"no pointer":      {"// Options have Size and Time.\ntype Options = values.Options", `the comment does not have "go doc github.com/gyrohq/gyro/values.Options"`},
		"no comment":      {"type Number = values.Number", `the comment does not have "go doc github.com/gyrohq/gyro/values.Number"`},
		"fields":          {"// \"go doc github.com/gyrohq/gyro/values.Options\": Times\ntype Options = values.Options", "the comment does not name the fields Size, Time"},
		"internal":        {"// \"go doc github.com/gyrohq/gyro/internal.Options\"\ntype Options = internal.Options", "users cannot look at github.com/gyrohq/gyro/internal.Options"},
		"own, unexported": {"type own struct{}\ntype Own = own", "users cannot look at github.com/gyrohq/gyro.own"},
		"chain":           {"// \"go doc github.com/gyrohq/gyro/values.Other\"\ntype Other = values.Other", "github.com/gyrohq/gyro/values.Other is an alias, too: name the type that it stands for"},
		"missing":         {"type Gone = values.Gone", "github.com/gyrohq/gyro/values.Gone was not found"},
	} {
		t.Run(name, func(t *testing.T) {
			imports := "// Package gyro is one.\npackage gyro\nimport (\n\"time\"\n\"github.com/gyrohq/gyro/values\"\nv \"github.com/gyrohq/gyro/values\"\n\"github.com/gyrohq/gyro/internal\"\n)\n"
			err := run(fstest.MapFS{"values/a.go": file(values), "b.go": file(imports + tt.declaration),
				// Not for users, so they may do what they like.
				"internal/a.go": file(values + "type Alias = hidden"), "cmd/a.go": file("package main\ntype Alias = hidden"),
			})
			got := ""
			if err != nil {
				_, got, _ = strings.Cut(err.Error(), ": alias ")
				_, got, _ = strings.Cut(got, ": ")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", err, tt.want)
			}
		})
	}
}

func TestPackages(t *testing.T) {
	err := run(fstest.MapFS{
		"good/a.go":     file("// Package good has a comment.\npackage good\n"),
		"good/b.go":     file("package good\n"),
		"bad/a.go":      file("// Something else.\npackage bad\n"),
		"internal/a.go": file("package internal\n"),
		"cmd/a.go":      file("package main\n"),
	})
	if want := `bad: no file has a comment that begins with "Package bad"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPlaces(t *testing.T) {
	const declarations = "// Package deep is.\npackage deep\n\n// Lose is gone.\ntype (\n\tTable struct{ Size int }\n\tFinder interface{ Seek() }\n)\n" +
		"const Most = 1\nvar None Other\nfunc New() {}\nfunc (t *Table) Find() {}\nfunc (p Pair[K, V]) Swap() {}\n"
	err := run(fstest.MapFS{
		"deep/a.go":              file(declarations),
		"deep/a.proto":           file("message Command {}\n"),
		"docs/other.md":          file("`deep/lost.go`\n"),
		".cache/a.txt":           file(""),
		"docs/decisions/1-is.md": file("`deep`, `deep/b.go`, `Deep/b.go`, `.cache/out` and `/api/publish`\n"),
		"docs/changing.md": file("`deep/a.go:Find`, `deep/a.go:Table.Find`, `deep/a.go:Table.Size`, `deep/a.go:Pair.Swap`, `deep/a.go:Finder.Seek`,\n" +
			"`deep/a.go:New`, `deep/a.go:None`, `deep/a.go:Most`, `deep/a.proto:Command`, `deep/`,\n" +
			"`deep/a.go:Size`, `deep/a.go:Other`, `deep/a.go:Lose`, `deep/a.go:Pair.Find`, `deep/a.proto:Reply`, `deep/deeper/`, `root.go:Node`\n" +
			"```\n`deep/gone.go`\n```\n"),
	})
	want := strings.Join([]string{
		"docs/changing.md: deep/a.go does not declare Size",
		"docs/changing.md: deep/a.go does not declare Other",
		"docs/changing.md: deep/a.go does not declare Lose",
		"docs/changing.md: deep/a.go does not declare Pair.Find",
		"docs/changing.md: deep/a.proto has no Reply",
		"docs/changing.md: there is no deep/deeper",
		"docs/changing.md: there is no root.go",
		"docs/decisions/1-is.md: there is no deep/b.go",
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestNothing(t *testing.T) {
	for name, tree := range map[string]fstest.MapFS{
		"no Go files": {"a.txt": file("")}, "a.go": {"a.go": file("no Go")},
	} {
		if err := run(tree); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	if err := run(os.DirFS("no such folder")); err == nil {
		t.Error("a folder that is not there is accepted")
	}
}
