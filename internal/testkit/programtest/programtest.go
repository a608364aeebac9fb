// Package programtest builds programs of this repository for tests that run them.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Variable is the environment variable with the path of the server with the race detector, which all tests share.
const Variable = "E2E_GYRO"

// Server builds the server like the test that calls it, and returns the path of the program. With the race detector,
// the program is the file of Variable, which is left alone if it is up to date. Otherwise, or if the variable is not
// set, it is a file in dir.
func Server(dir string) (path string, err error) {
	path = filepath.Join(dir, "gyro")
	if shared := os.Getenv(Variable); race && shared != "" {
		path = shared
	}
	return path, Build(path, "github.com/gyrohq/gyro/server/cmd/gyro")
}

// Build builds a package like the test that calls it, with the race detector or without, so that both share compiled
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
