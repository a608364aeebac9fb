package brokertest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/gyrohq/gyro" // whatever changes in the library, this test runs again
)

// TestOutside builds and tests the engine of examples/custombroker in a module outside of this repository: public
// packages are enough to describe it, to pass the suite, and to serve as the broker of a gyro.Node.
func TestOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the library once more: without -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte, err error) {
		t.Helper()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bus.go", "main.go", "bus_test.go"} {
		data, err := os.ReadFile(filepath.Join(root, "examples/custombroker", name))
		write(name, data, err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	write("go.sum", sums, err)
	write("go.mod", fmt.Appendf(nil, "module example.com/engine\n\ngo 1.26\n\n"+
		"require github.com/gyrohq/gyro v0.0.0\n\nreplace github.com/gyrohq/gyro => %s\n", root), nil)
	cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
	cmd.Dir = dir
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -mod=mod") // with -trimpath, all but this module is in the build cache
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags, "GOPROXY=off", "GOSUMDB=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
