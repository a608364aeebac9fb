package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recorder notes how a test would have ended.
type recorder struct {
	testing.TB
	skipped, failed, logged string
}

func (r *recorder) Helper()           {}
func (r *recorder) Skip(args ...any)  { r.skipped = args[0].(string) }
func (r *recorder) Log(args ...any)   { r.logged = args[0].(string) }
func (r *recorder) Fatal(args ...any) { r.failed = args[0].(string) }

func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	before := places
	places = nil
	defer func() { places = before }()
	const line = "needs redis-server: apt-get install redis-server"

	t.Setenv("CI", "")
	var laptop recorder
	if Program(&laptop, "redis-server"); laptop.skipped != line || laptop.failed != "" {
		t.Errorf("skipped %q, failed %q", laptop.skipped, laptop.failed)
	}
	if laptop = (recorder{}); Have(&laptop, "redis-server") || laptop.logged != line || laptop.failed != "" {
		t.Errorf("Have logged %q, failed %q", laptop.logged, laptop.failed)
	}
	t.Setenv("CI", "true")
	var ci recorder
	if Program(&ci, "redis-server"); ci.failed != line || ci.skipped != "" {
		t.Errorf("with CI: skipped %q, failed %q", ci.skipped, ci.failed)
	}
	if ci = (recorder{}); Have(&ci, "redis-server") || ci.failed != line {
		t.Errorf("with CI: Have failed %q", ci.failed)
	}
	if path, err := Path("redis-server"); err == nil || err.Error() != line {
		t.Errorf("Path returned %q, %v", path, err)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	t.Setenv("PATH", filepath.Join(root, "path"))
	before := places
	places = []string{filepath.Join(root, "lib", "*", "bin")}
	defer func() { places = before }()

	if path, ok := Find("initdb"); ok {
		t.Fatalf("found %s in empty folders", path)
	}
	for _, dir := range []string{"lib/15/bin", "lib/17/bin", "path"} {
		program := filepath.Join(root, dir, "initdb")
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if path, ok := Find("initdb"); !ok || path != program {
			t.Errorf("Find returned %q, %v, want %q", path, ok, program)
		}
	}
}

func TestUnknown(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a program that no package is known for was taken")
		}
	}()
	Packages("no-such-program")
}

// TestKnown: Go keeps no result of a test that lacked a program beyond the installation of a program. It looks at the
// variables that a test has read, which the test's program writes into a file.
func TestKnown(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if out, err := exec.Command(os.Args[0], "-test.run=^TestFind$", "-test.testlogfile="+log).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(read), "getenv "+Known+"\n") {
		t.Errorf("%v: the test has read %s", err, read)
	}
}
