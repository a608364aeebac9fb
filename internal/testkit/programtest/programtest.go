// Package programtest builds programs of this repository for tests that run them.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable is the environment variable with the path of the server with the race detector, for all tests.
const Variable = "E2E_GYRO"

// Server builds the server like the test that calls it: with the race detector into the file of Variable, which is left
// alone if it is up to date. Otherwise, or if the variable is not set, into dir.
func Server(dir string) (path string, err error) {
	path = filepath.Join(dir, "gyro")
	if shared := os.Getenv(Variable); race && shared != "" {
		path = shared
	}
	return path, Build(path, "github.com/gyrohq/gyro/server/cmd/gyro")
}

// Build builds a package with the race detector or without, like the test that calls it, so that both share compiled
// packages.
func Build(file, name string) error {
	args := []string{"build", "-buildvcs=false"} // the version of a program for tests is no commit
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "-o", file, name)...).CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return nil
}
