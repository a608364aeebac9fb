package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, root, file, text string) {
	t.Helper()
	name := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPackagesPage(t *testing.T) {
	root := t.TempDir()
	put(t, root, "root.go", "// Package gyro is a node: it has\n// clients.\npackage gyro\n")
	put(t, root, "low/low.go", "// Package low counts a | b: "+strings.Repeat("one, ", longSentence)+"two. It is fast.\npackage low\n")
	put(t, root, "low/more.go", "package low\n")
	put(t, root, "cmd/main.go", "// Command cmd runs.\npackage main\n")
	const table = "# A table of layers\n# Of: no heading.\n\n# Values: what others\n# see.\nlow: low\n\n# Programs: the rest.\nnode*: .\ncmd: cmd\n"
	page, err := packagesPage(table, root)
	want := packagesHead + "\n## Values\n\nWhat others see.\n\n| package | |\n| --- | --- |\n| [low](../low) | counts a \\| b |\n" +
		"\n## Programs\n\nThe rest.\n\n| package | |\n| --- | --- |\n| [gyro](../.) | is a node: it has clients |\n| [cmd](../cmd) | runs |\n"
	if err != nil || page != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, page, want)
	}
}

func TestPackagesPageRefuses(t *testing.T) {
	root := t.TempDir()
	put(t, root, "low/low.go", "package low\n")
	put(t, root, "lost/lost.go", "// Package lost is lost.\npackage lost\n")
	_, err := packagesPage("all: lost\n\n# Values: what others see.\nlow: low\n", root)
	if want := "lost: it is below no heading of the table of layers\nlow: no file has a comment of the package"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, strings.ReplaceAll(want, "\n", " / "))
	}
}
