package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTable: each mutant still has its place in the product.
func TestTable(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range table {
		text, err := os.ReadFile(filepath.Join(root, m.File))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.Old); n != 1 {
			t.Errorf("%s: %s has the old text %d times, not once", m.Name, m.File, n)
		}
		if m.Old == m.New || m.Promise == "" || known[m.Name] {
			t.Errorf("%s: it changes nothing, breaks no promise, or is there twice", m.Name)
		}
		known[m.Name] = true
	}
	if len(table) < 40 {
		t.Errorf("%d mutants, not 40", len(table))
	}
}
