//go:build unix

package docs

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
)

const (
	repository = "../.."
	// patience bounds each block: a Go program is compiled.
	patience = time.Minute
)

const (
	gyroPort = "8000"
	apiKey   = "my-api-key"
)

type page struct {
	*testing.T
	dir     string
	ports   map[string]string // by the ports of the documentation
	env     []string
	running map[string]*process // by the port of the documentation
	last    *process            // the newest program, or nil
	answer  string              // to the newest request, if it is not compared yet
	skipped bool                // the newest program could not be run here
	files   int
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	out    logtest.Buffer // stdout
	all    logtest.Buffer // stdout and stderr
	done   bool           // it has ended, and its output is complete
}

// tell signals the program and its children. It ignores that none may be left.
func (c *process) tell(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{T: t, dir: t.TempDir(), ports: map[string]string{}, running: map[string]*process{}}
	for _, port := range []string{gyroPort, "8443", "9000", "3000", "3001", "4318", "6379", "10000"} {
		p.ports[port] = fmt.Sprint(rig.Port(t))
	}
	root := absolute(t, repository)
	gyro, err := rig.Binary()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(p.dir, ".bin")
	// gyro dev takes its port from a flag alone.
	p.write(".bin/gyro", fmt.Sprintf("#!/bin/sh\n[ \"$1\" = dev ] && set -- \"$@\" -p %s\nexec %q \"$@\"\n", p.ports[gyroPort], gyro))
	p.write("package.json", `{"type": "module"}`)
	for name, of := range map[string]string{"node_modules": "e2e/js/node_modules", "api.proto": "server/internal/api/api.proto",
		"proxy.proto": "server/internal/proxy/message/proxy.proto"} {
		if err := os.Symlink(filepath.Join(root, of), filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p.workspace(root)
	p.env = append(os.Environ(), "PATH="+bin+":"+python(t)+":"+os.Getenv("PATH")+":/usr/sbin", "NO_PROXY=*", "no_proxy=*",
		"GYRO_HTTP_SERVER_ADDRESS=127.0.0.1", "GYRO_HTTP_SERVER_PORT="+p.ports[gyroPort], "GORACE=halt_on_error=1",
		"GOWORK="+filepath.Join(p.dir, "go.work"), "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONPATH="+filepath.Join(root, "clients/python/src"))
	t.Cleanup(p.stop)
	return p
}

func python(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(absolute(t, repository), ".cache/venv/bin")
	if _, err := os.Stat(filepath.Join(folder, "python3")); err != nil {
		t.Fatalf("%v: make ci PART=docs installs it", err)
	}
	return folder
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

var relative = regexp.MustCompile(`(?m)(^\t|=> )(\.\S*)`)

func (p *page) workspace(root string) {
	p.Helper()
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		p.Fatal(err)
	}
	text := relative.ReplaceAllStringFunc(string(work), func(found string) string {
		m := relative.FindStringSubmatch(found)
		return m[1] + filepath.Join(root, m[2])
	})
	p.write("go.work", strings.Replace(text, "use (", "use (\n\t.", 1))
	sum, err := os.ReadFile(filepath.Join(root, "go.work.sum"))
	if err != nil {
		p.Fatal(err)
	}
	p.write("go.work.sum", string(sum))
	p.write("go.mod", "module example.com/page\n\ngo 1.26.0\n")
}

func (p *page) write(name, text string) {
	p.Helper()
	name = filepath.Join(p.dir, name)
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o700)
	}
	if err != nil {
		p.Fatal(err)
	}
}

var port = regexp.MustCompile(`\b(8000|8443|9000|300[01]|4318|6379|10000)\b`)

func (p *page) here(text string) string {
	return port.ReplaceAllStringFunc(text, func(s string) string { return p.ports[s] })
}

func (p *page) try(b block) {
	p.Helper()
	text := p.here(b.text)
	name := b.options["file"]
	if name == "" {
		p.files++
		name = fmt.Sprintf("block%d.%s", p.files, b.language)
	}
	if b.has("file") || b.has("run") || b.has("start") {
		before, _ := os.ReadFile(filepath.Join(p.dir, name)) // there may be none
		p.write(name, string(before)+text)
	}
	switch {
	case b.has("config"):
		p.write("config.json", text)
		p.start(p.command("sh", "gyro -c config.json"), gyroPort)
	case b.has("checked"):
		p.write("checked."+b.language, text)
		p.run(p.command("sh", "gyro checkconfig -s -c checked."+b.language))
	case b.has("run"):
		p.run(p.program(b.language, name))
	case b.has("start"):
		p.start(p.program(b.language, name), b.options["start"])
	case b.has("output"):
		p.output(text)
		if check := b.options["output"]; check != "" && !p.skipped {
			p.run(p.command("sh", "gyro "+check+" "+strings.TrimSpace(p.last.out.String())))
		}
	case b.has("post"):
		p.post(b.options["post"], text)
	case b.has("answer"):
		if err := matches(text, p.answer); err != nil {
			p.Error(err)
		}
		p.answer = ""
	case b.has("page"):
		p.visit(p.here(b.options["page"]), b.options["say"], text)
	case b.has("install"):
		p.installed(b.text)
	case b.has("file"), b.has("figure"), b.has("skip"), b.language == "mermaid":
	default:
		p.Error("the block does not say what to do with it (see the package's comment)")
	}
}

// program is nil if there is no interpreter.
func (p *page) program(language, name string) *exec.Cmd {
	p.Helper()
	switch language {
	case "sh":
		return p.command("bash", "set -euo pipefail\n. ./"+name)
	case "py":
		return p.command("sh", "exec python3 "+name)
	case "js":
		return p.command("sh", "exec node "+name)
	case "go":
		return p.command("sh", "go build -o program "+name+" && exec ./program")
	case "cs":
		if !need.Have(p, "mcs") {
			return nil
		}
		return p.command("sh", "mcs -langversion:latest -r:System.Net.Http -r:System.Web -out:program.exe *.cs && exec mono program.exe")
	case "php", "rb", "java":
		interpreter := map[string]string{"php": "php", "rb": "ruby", "java": "java"}[language]
		needed := interpreter
		if language == "java" {
			needed = "javac" // java compiles a file only where there is a compiler
		}
		if !need.Have(p, needed) {
			return nil
		}
		return p.command("sh", "exec "+interpreter+" "+name)
	}
	p.Fatalf("no way to run %q", language)
	return nil
}

func (p *page) command(shell, text string) *exec.Cmd {
	cmd := exec.Command(shell, "-c", text)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func (p *page) launch(cmd *exec.Cmd) *process {
	p.Helper()
	c := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&c.out, &c.all), &c.all
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the state has it
		close(c.exited)
	}()
	return c
}

// run expects no output of a program that cannot run here.
func (p *page) run(cmd *exec.Cmd) {
	p.Helper()
	p.last, p.skipped = nil, cmd == nil
	if p.skipped {
		return
	}
	c := p.launch(cmd)
	defer c.tell(syscall.SIGKILL)
	select {
	case <-c.exited:
	case <-time.After(patience):
		p.Fatalf("it has not ended after %v:\n%s", patience, c.all.String())
	}
	if !cmd.ProcessState.Success() {
		p.Errorf("%s:\n%s", cmd.ProcessState, c.all.String())
	}
	p.last, c.done = c, true
}

// start runs a program until the page ends, or another is started on the port. Of one that cannot run here, no web page
// is expected.
func (p *page) start(cmd *exec.Cmd, listens string) {
	p.Helper()
	if before := p.running[listens]; before != nil {
		p.end(before)
		delete(p.running, listens)
	}
	p.skipped = cmd == nil
	if p.skipped {
		return
	}
	c := p.launch(cmd)
	p.running[listens], p.last = c, c
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+p.ports[listens]); err == nil {
			conn.Close()
			return
		}
		select {
		case <-c.exited:
			p.Fatalf("it has ended:\n%s", c.all.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.Fatalf("it does not listen on %s:\n%s", listens, c.all.String())
}

// output gives a running program time.
func (p *page) output(shown string) {
	p.Helper()
	if p.skipped {
		return
	}
	if p.last == nil {
		p.Fatal("no program is before it")
	}
	var err error
	wait.Within(patience, func() bool {
		err = matches(shown, p.last.out.String())
		return err == nil || p.last.done
	})
	if err != nil {
		p.Errorf("%v\nall output:\n%s", err, p.last.all.String())
	}
}

func (p *page) post(path, body string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+p.ports[gyroPort]+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("X-API-Key", apiKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.Errorf("%s: %s", resp.Status, answer)
	}
	p.answer = string(answer)
}

func (p *page) visit(url, say, shown string) {
	p.Helper()
	if p.skipped {
		return
	}
	visitor := p.command("sh", `exec node "$@"`)
	visitor.Args = append(visitor.Args, "sh", filepath.Join(absolute(p.T, repository), "e2e/js/visit.js"), url, pattern(shown), say)
	p.run(visitor)
}

var command = regexp.MustCompile(`(?m)^(npm|pip|go) (?:install|get) (.*)$`)

// installed compares the packages that readers are told to install with those here.
func (p *page) installed(text string) {
	p.Helper()
	found := command.FindAllStringSubmatch(text, -1)
	if found == nil {
		p.Errorf("nothing is installed")
	}
	for _, m := range found {
		file := map[string]string{"npm": "e2e/js/package.json", "pip": "e2e/python/requirements.txt", "go": "go.work"}[m[1]]
		list, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			p.Fatal(err)
		}
		for name := range strings.FieldsSeq(m[2]) {
			if m[1] == "go" {
				name = strings.TrimSuffix(name, "@latest") + " "
			}
			if !strings.Contains(strings.ToLower(string(list)), strings.ToLower(name)) {
				p.Errorf("%s does not have %s", file, name)
			}
		}
	}
}

func (p *page) end(c *process) {
	c.tell(syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(10 * time.Second):
	}
	c.tell(syscall.SIGKILL)
	<-c.exited
}

func (p *page) stop() {
	for listens, c := range p.running {
		p.end(c)
		if p.Failed() {
			p.Logf("output of what listened on %s:\n%s", listens, c.all.String())
		}
	}
}
