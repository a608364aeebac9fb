// Package install checks that users can install the modules from a module proxy: the modules of the commit that is checked
// out, in the version in which they require each other.
package install

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

const (
	repository = "../.."
	library    = "github.com/gyrohq/gyro"
	// patience bounds the test: without a build cache, the server takes minutes.
	patience = 4 * time.Minute
)

// published are the folders of the modules for users. The server requires all others.
var published = []string{"server", "broker/nats", "broker/postgres", "broker/redis", "metrics", "transport/webtransport", "."}

type user struct {
	t   *testing.T
	ctx context.Context
	dir string
	env []string
	// version of the modules, by the first go.mod.
	version string
}

func newUser(t *testing.T) *user {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	u := &user{t: t, ctx: ctx, dir: t.TempDir()}
	// Dependencies come from the module cache, without a network. Downloads go to another cache, because this version of
	// Gyro is not the published one.
	proxies := []string{"file://" + u.publish(), "file://" + u.run(".", "go", "env", "GOMODCACHE") + "/cache/download", u.run(".", "go", "env", "GOPROXY")}
	u.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0", "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GOPROXY="+strings.Join(proxies, ","), "GOMODCACHE="+t.TempDir(), "GOBIN="+u.dir)
	return u
}

func (u user) in(t *testing.T) *user {
	u.t = t
	return &u
}

// run returns the output without the line's end.
func (u *user) run(dir string, command ...string) string {
	u.t.Helper()
	cmd := exec.CommandContext(u.ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, u.env
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, failure.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// publish writes a module proxy (go.dev/ref/mod, GOPROXY protocol).
func (u *user) publish() string {
	u.t.Helper()
	dir, tree := u.t.TempDir(), u.t.TempDir()
	commit := filepath.Join(u.dir, "commit.tar")
	u.run(repository, "git", "archive", "--output="+commit, "HEAD")
	u.run(tree, "tar", "-xf", commit)
	for _, folder := range published {
		goMod := u.read(filepath.Join(tree, folder, "go.mod"))
		u.check(folder, goMod)
		m := module.Version{Path: path.Join(library, folder), Version: u.version}
		var archive bytes.Buffer
		if err := zip.CreateFromDir(&archive, m, filepath.Join(tree, folder)); err != nil {
			u.t.Fatalf("%s: %v", folder, err)
		}
		for name, content := range map[string]string{
			"list":              m.Version + "\n",
			m.Version + ".mod":  goMod,
			m.Version + ".zip":  archive.String(),
			m.Version + ".info": `{"Version":"` + m.Version + `"}`,
		} {
			u.write(filepath.Join(dir, m.Path, "@v", name), content)
		}
	}
	return dir
}

// check: a go.mod requires all modules of Gyro in one version and replaces none.
func (u *user) check(folder, goMod string) {
	u.t.Helper()
	f, err := modfile.Parse(path.Join(folder, "go.mod"), []byte(goMod), nil)
	if err != nil {
		u.t.Fatal(err)
	}
	if len(f.Replace) > 0 {
		u.t.Errorf("%s: users cannot install a module that replaces others", f.Syntax.Name)
	}
	for _, r := range f.Require {
		if r.Mod.Path != library && !strings.HasPrefix(r.Mod.Path, library+"/") {
			continue
		}
		if u.version == "" {
			u.version = r.Mod.Version
		}
		if r.Mod.Version != u.version {
			u.t.Errorf("%s requires %s, others %s", f.Syntax.Name, r.Mod, u.version)
		}
	}
}

func (u *user) read(file string) string {
	u.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(content)
}

func (u *user) write(file, content string) {
	u.t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(content), 0o644)
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

func TestInstall(t *testing.T) {
	u := newUser(t)
	t.Run("server", func(t *testing.T) {
		u := u.in(t)
		u.run(u.dir, "go", "install", library+"/server/cmd/gyro@"+u.version)
		gyro := filepath.Join(u.dir, "gyro")
		if got := u.run(u.dir, gyro, "version"); !strings.HasPrefix(got, "Gyro "+u.version+" (") {
			t.Errorf("version: %s", got)
		}
		u.run(u.dir, gyro, "genconfig", "-c", "config.json")
		u.run(u.dir, gyro, "checkconfig", "-s", "-c", "config.json")
	})
	t.Run("memory", func(t *testing.T) {
		u := u.in(t)
		server := u.program("memory", library)
		converse(t, server)
		u.write(filepath.Join(u.dir, "client", "main.go"), u.read(filepath.Join("testdata", "client", "main.go")))
		client := u.build(filepath.Join(u.dir, "client"), library)
		serve(t, server, nil, func(address string) {
			if got := u.run(u.dir, client, "ws"+strings.TrimPrefix(address, "http")); got != "hello" {
				t.Errorf("the client says %q", got)
			}
		})
	})
	t.Run("redis", func(t *testing.T) {
		redis, err := rig.StartRedis(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(redis.Kill)
		converse(t, u.in(t).program("redis", library, library+"/broker/redis"), redis.Addr())
	})
	t.Run("accounts", func(t *testing.T) { accounts(t, u.in(t)) })
}

// program builds the program of testdata with an engine, in a module of its own.
func (u *user) program(engine string, requires ...string) string {
	u.t.Helper()
	dir := filepath.Join(u.dir, engine)
	for _, file := range []string{"main.go", engine + ".go"} {
		u.write(filepath.Join(dir, file), u.read(filepath.Join("testdata", file)))
	}
	return u.build(dir, requires...)
}

func (u *user) build(dir string, requires ...string) string {
	u.t.Helper()
	u.run(dir, "go", "mod", "init", "example.com/"+filepath.Base(dir))
	for _, m := range requires {
		u.run(dir, "go", "get", m+"@"+u.version)
	}
	u.run(dir, "go", "mod", "tidy")
	u.run(dir, "go", "build", "-o", "program", ".")
	return filepath.Join(dir, "program")
}

func converse(t *testing.T, program string, args ...string) {
	t.Helper()
	serve(t, program, args, func(address string) {
		hears, speaks := wstest.Dial(t, address, nil), wstest.Dial(t, address, nil)
		hears.Connect("")
		speaks.Connect("")
		hears.Subscribe("room", "")
		speaks.Do(`"publish":{"channel":"room","data":{"text":"hello"}}`)
		if pub := hears.Pub(); string(pub.Data) != `{"text":"hello"}` {
			t.Errorf("heard %s", pub.Data)
		}
	})
}

func serve(t *testing.T, program string, args []string, use func(address string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	in, err := cmd.StdinPipe() // the program ends when its input does, also if the test is killed
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the program tells no address: %v\n%s", errors.Join(err, cmd.Wait()), failure.Bytes())
	}
	use("http://" + strings.TrimSpace(address))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, failure.Bytes())
	}
}
