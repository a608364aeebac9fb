package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	page := write("page.tmpl", `{{range codes "Error"}}{{.Code}} {{.Text}} {{.Temporary}} {{.Meaning}}{{"\n"}}{{end}}{{range codes "Err"}}{{.Name}}{{end}}`)
	out := filepath.Join(dir, "page.md")
	source := write("codes.go", `package p
const unrelated = 1
var (
	// ErrorBusy: wait a
	// little.
	ErrorBusy = &Error{Code: 7, Message: "busy", Temporary: true}
	// ErrGone: it is gone.
	ErrGone = &Error{8, "gone"}
)
`)
	if err := run(page, out, []string{source}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "7 busy true Wait a little.\nErrGone" {
		t.Errorf("wrote %q, %v", got, err)
	}
	for _, comment := range []string{"", "// ErrorBusy is the server's."} {
		source := write("wrong.go", "package p\n"+comment+"\nvar ErrorBusy = &Error{7, \"busy\"}\n")
		if err := run(page, out, []string{source}); err == nil || !strings.Contains(err.Error(), "ErrorBusy") {
			t.Errorf("%q: %v", comment, err)
		}
	}
}
