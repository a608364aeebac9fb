package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCheck gives the check a repository with an import in the wrong direction, a package without a layer and a line
// without a package.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	for file, source := range map[string]string{
		"low/low.go":             "package low\n\nimport _ \"github.com/gyrohq/gyro/high\"\n",
		"low/inner/inner.go":     "package inner\n\nimport _ \"github.com/gyrohq/gyro\"\n",
		"low/low_test.go":        "package low\n\nimport _ \"github.com/gyrohq/gyro/free\"\n",
		"low/testdata/x/x.go":    "package x\n",
		"high/high.go":           "package high\n\nimport (\n\t_ \"fmt\"\n\n\t_ \"github.com/gyrohq/gyro/low\"\n\t_ \"github.com/gyrohq/gyro/free\"\n)\n",
		"free/free_linux.go":     "package free\n\nimport _ \"github.com/gyrohq/gyro/lost\"\n",
		"lost/lost.go":           "package lost\n",
		"root.go":                "package gyro\n\nimport _ \"github.com/gyrohq/gyro/low/inner\"\n",
		"node_modules/go/npm.go": "package npm\n",
	} {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wrong, err := check(`
# a comment
node:  .           <- inner
low:   low/...
inner: low/inner
high:  high gone/... <- low
free*: free
`, root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"high/high.go:7: high imports free, and layer high may not import layer free",
		"lost: no line names it",
		"low/low.go:3: low imports high, and layer low may not import layer high",
		"low/inner/inner.go:3: low/inner imports ., and layer inner may not import layer node",
		"layer high: there is no package gone/...",
	}
	if !slices.Equal(wrong, want) {
		t.Errorf("got  %q\nwant %q", wrong, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for table, want := range map[string]string{
		"a: x\nb: x":    "layers: x is in two lines",
		"a: x\na: y":    "layers: two lines have the name a",
		"a: x <- b":     "layers: layer a may import b, which is no layer",
		"without colon": `layers: no colon in "without colon"`,
	} {
		if _, err := parse(table); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", table, err, want)
		}
	}
}
