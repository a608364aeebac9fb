package gosdk

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/e2e/internal/rig"
)

const module = "github.com/centrifugal/centrifuge-go"

// TestOwnSuite runs the tests of centrifuge-go against a server that is configured as its docker-compose.yml says. They
// need ports 8000 and (closed) 9000. Files that never name the server are left out: their tests talk to a server of
// their own, and some race within the SDK. So the race detector is off, too.
func TestOwnSuite(t *testing.T) {
	for _, port := range []string{"8000", "9000"} {
		if c, err := net.Dial("tcp", "localhost:"+port); err == nil {
			_ = c.Close()
			t.Fatalf("port %s is taken; the tests of centrifuge-go need it to be free", port)
		}
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	source := strings.TrimSpace(string(dir))
	args, env := compose(t, filepath.Join(source, "docker-compose.yml"))
	server, err := rig.StartServer(8000, append(args, "--health.enabled"), env)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	suite := exec.Command("go", "test", "-count=1", "-run", "^("+strings.Join(serverTests(t, source), "|")+")$", module)
	suite.Env = os.Environ()
	out, err := suite.CombinedOutput()
	t.Logf("%s\n%s", suite, out)
	if err != nil {
		t.Fatalf("%v\n%s", err, server.Log())
	}
	if !strings.Contains(string(out), "ok  \t"+module) {
		t.Fatal("the suite did not run")
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// serverTests names the tests in files that dial the server.
func serverTests(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "//localhost:8000/") {
			continue
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d tests of %s dial the server", len(names), dir)
	}
	return names
}

var (
	composeCommand = regexp.MustCompile(`(?m)^\s+command: centrifugo (.*)$`)
	composeEnv     = regexp.MustCompile(`(?m)^\s+(CENTRIFUGO_\w+): "(.*)"$`)
)

func compose(t *testing.T, path string) (args, env []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	command := composeCommand.FindSubmatch(text)
	for _, m := range composeEnv.FindAllSubmatch(text, -1) {
		env = append(env, string(m[1])+"="+string(m[2]))
	}
	if command == nil || len(env) == 0 {
		t.Fatalf("%s is not as expected:\n%s", path, text)
	}
	return strings.Fields(string(command[1])), env
}
