// Package need finds the programs that tests start beside themselves. A test whose program is missing is skipped with a
// line that names the package to install; with CI=true in the environment it fails, so that no test is left out
// unnoticed.
package need

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

var packages = map[string]string{
	"caddy":           "caddy",
	"chromium":        "chromium",
	"curl":            "curl",
	"firefox-esr":     "firefox-esr",
	"gpg":             "gpg",
	"haproxy":         "haproxy",
	"initdb":          "postgresql",
	"ip":              "iproute2",
	"javac":           "default-jdk-headless",
	"jq":              "jq",
	"logrotate":       "logrotate",
	"mcs":             "mono-mcs libmono-system-net-http4.0-cil libmono-system-web4.0-cil",
	"mvn":             "maven",
	"mmdebstrap":      "mmdebstrap",
	"nginx":           "nginx-light",
	"node":            "nodejs",
	"npm":             "nodejs npm",
	"openssl":         "openssl",
	"pg_basebackup":   "postgresql",
	"php":             "php-cli",
	"postgres":        "postgresql",
	"python3":         "python3",
	"python3-venv":    "python3 python3-venv",
	"redis-cli":       "redis-tools",
	"redis-sentinel":  "redis-sentinel",
	"redis-server":    "redis-server",
	"rpm":             "rpm",
	"ruby":            "ruby",
	"strace":          "strace",
	"systemd-analyze": "systemd",
}

// places are the folders outside of PATH where Debian keeps programs. The last match of a pattern is the newest version.
var places = []string{"/usr/sbin", "/usr/lib/postgresql/*/bin"}

// imports are the modules that Python must be able to import for a name of this table.
var imports = map[string]string{"python3-venv": "ensurepip, venv"}

// Known is an environment variable that lists the installed programs. Find only reads it, so that Go runs a skipped test
// again after a program was installed, instead of reporting the kept result. Its name does not begin with GYRO_, because
// the server warns of unknown ones.
const Known = "E2E_PROGRAMS"

// Program returns the path of a program of this package. Without the program it skips the test, or fails it with
// CI=true.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, ok := Find(name)
	if !ok {
		Skip(tb, name, "apt-get install "+Packages(name))
	}
	return path
}

// Have is Program for a test that leaves out a part. It logs the package to install.
func Have(tb testing.TB, name string) bool {
	tb.Helper()
	_, ok := Find(name)
	if !ok {
		say := tb.Log
		if os.Getenv("CI") == "true" {
			say = tb.Fatal
		}
		say(Line(name, "apt-get install "+Packages(name)))
	}
	return ok
}

// Path returns the path of a program, or the Line of a skipped test as the error, for callers that cannot skip.
func Path(program string) (string, error) {
	path, ok := Find(program)
	if !ok {
		return "", errors.New(Line(program, "apt-get install "+Packages(program)))
	}
	return path, nil
}

// Programs returns the names of all programs that the package knows.
func Programs() []string { return slices.Sorted(maps.Keys(packages)) }

// Packages returns the Debian packages of a program, separated by spaces. It panics for an unknown program.
func Packages(program string) string {
	if names, ok := packages[program]; ok {
		return names
	}
	panic(fmt.Sprintf("need: no package is known for %q; known are %q", program, Programs()))
}

// Find returns the path of a program, and whether it is there.
func Find(program string) (string, bool) {
	_ = os.Getenv(Known)
	if modules, ok := imports[program]; ok {
		path, err := exec.LookPath("python3")
		return path, err == nil && exec.Command(path, "-c", "import "+modules).Run() == nil
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, true
	}
	for _, place := range places {
		found, _ := filepath.Glob(filepath.Join(place, program)) // the patterns are well-formed
		if len(found) > 0 {
			return found[len(found)-1], true
		}
	}
	return "", false
}

// Skip skips a test, or fails it with CI=true, because what is missing, and says how to get it.
func Skip(tb testing.TB, what, install string) {
	tb.Helper()
	end := tb.Skip
	if os.Getenv("CI") == "true" {
		end = tb.Fatal
	}
	end(Line(what, install))
}

// Prefix begins each Line.
const Prefix = "needs "

// Line is the text of a skipped test. tools/loop gathers the lines of all tests.
func Line(what, install string) string { return Prefix + what + ": " + install }
