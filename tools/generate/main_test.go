package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a repository of one schema, of which a command makes a page, and of an application that a stamp guards.
func tree(t *testing.T) (root string, list []product) {
	t.Helper()
	root = t.TempDir()
	put(t, root, "schema/page.txt", "page\n")
	put(t, root, "app/src.txt", "app\n")
	put(t, root, "edited.txt", "something else\n")
	return root, []product{
		{name: "page", dir: "schema", command: "cp page.txt OUT/docs/page.md", owns: "docs/*.md"},
		{name: "app", dir: "app", command: "cp src.txt OUT/ui/app.gz", owns: "ui/*.gz", stamp: "ui/made", inputs: []string{"app"}},
	}
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCompare(t *testing.T) {
	root, list := tree(t)
	for _, dir := range []string{"docs", "ui"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(root, list, false); err != nil {
		t.Fatal(err)
	}
	fresh := func(all bool) {
		t.Helper()
		if err := compare(root, list, all); err != nil {
			t.Fatal(err)
		}
	}
	stale := func(all bool, names ...string) {
		t.Helper()
		want := "stale, run make generate:\n\t" + strings.Join(names, "\n\t")
		if err := compare(root, list, all); err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
	fresh(false)
	fresh(true)

	put(t, root, "edited.txt", "edited\n")
	fresh(false)

	put(t, root, "schema/page.txt", "another page\n")
	stale(false, "docs/page.md")
	put(t, root, "docs/old.md", "of a schema that is gone\n")
	stale(false, "docs/old.md", "docs/page.md")

	put(t, root, "app/src.txt", "another app\n")
	stale(false, "docs/old.md", "docs/page.md", "ui/made: app was made of other files")
	stale(true, "docs/old.md", "docs/page.md", "ui/app.gz", "ui/made: app was made of other files")

	if err := write(root, list, false); err != nil {
		t.Fatal(err)
	}
	fresh(true)
	put(t, root, "ui/app.gz", "edited by hand\n")
	stale(false, "ui/made: app was made of other files")
}

// TestStamp: a product whose stamp is right is not made again.
func TestStamp(t *testing.T) {
	root, list := tree(t)
	put(t, root, "docs/page.md", "")
	put(t, root, "ui/app.gz", "")
	if err := write(root, list, false); err != nil {
		t.Fatal(err)
	}
	list[1].command = "false"
	if err := write(root, list, false); err != nil {
		t.Fatal(err)
	}
	if err := write(root, list, true); err == nil {
		t.Error("with all, a product with the right stamp was not made")
	}
}

// TestProducts: the commands of the repository say where they write, and stamps have inputs.
func TestProducts(t *testing.T) {
	names := map[string]bool{}
	for _, p := range products {
		if names[p.name] {
			t.Errorf("%s: there are two of it", p.name)
		}
		names[p.name] = true
		if !strings.Contains(p.command, " "+out) {
			t.Errorf("%s: the command has no argument that begins with %s", p.name, out)
		}
		if _, err := os.Stat(filepath.Join("../..", p.dir)); err != nil {
			t.Error(err)
		}
		if (p.stamp == "") != (len(p.inputs) == 0) {
			t.Errorf("%s: a stamp needs inputs", p.name)
		}
	}
}
