package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestWorkspace: the server is built with the modules that users get, and not with those of tests.
func TestWorkspace(t *testing.T) {
	b := Builder{Tree: "../../.."}
	file := filepath.Join(t.TempDir(), "go.work")
	if err := b.workspace(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork(file, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var server bool
	for _, use := range work.Use {
		if !filepath.IsAbs(use.Path) {
			t.Errorf("%s is not absolute", use.Path)
		}
		if _, err := os.Stat(filepath.Join(use.Path, "go.mod")); err != nil {
			t.Error(err)
		}
		for _, module := range []string{"e2e", "tools", "accounts", "simulation"} {
			if filepath.Base(use.Path) == module {
				t.Errorf("%s is used", use.Path)
			}
		}
		server = server || filepath.Base(use.Path) == "server"
	}
	if !server {
		t.Errorf("no server in %s", text)
	}
	if len(work.Replace) < 6 {
		t.Errorf("%s", text)
	}
	for _, r := range work.Replace {
		if !filepath.IsAbs(r.New.Path) {
			t.Errorf("%s is replaced by %s", r.Old.Path, r.New.Path)
		}
	}
}

func TestNext(t *testing.T) {
	next, err := Builder{Tree: "../../.."}.Next()
	if err != nil || strings.HasPrefix(next, "v") || strings.Count(next, ".") < 2 {
		t.Errorf("%q %v", next, err)
	}
}

func TestParseTarget(t *testing.T) {
	if got, err := ParseTarget("windows/arm64"); err != nil || got.Program() != "gyro.exe" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := ParseTarget("plan9/amd64"); err == nil || !strings.Contains(err.Error(), "plan9/amd64") {
		t.Error(err)
	}
}
