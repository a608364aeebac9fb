package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/programtest"
)

// binary is the command, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gyro")
	if err != nil {
		panic(err)
	}
	if binary, err = programtest.Server(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// command prepares a run in a folder, with no other variables than env.
func command(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env = dir, append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	return cmd
}

// run returns what a command printed on stdout, and its exit code.
func run(t *testing.T, dir string, env []string, args ...string) (string, int) {
	t.Helper()
	out, _, code := outcome(t, command(t, dir, env, args...))
	return out, code
}

// outcome runs a command to its end.
func outcome(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), messages.String(), cmd.ProcessState.ExitCode()
}

// succeed is run for a command that has to succeed.
func succeed(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, code := run(t, dir, nil, args...)
	if code != 0 {
		t.Fatalf("%q: exit code %d: %s", args, code, out)
	}
	return out
}

// fail is run for a command that has to fail with code 1, a text on stderr, and nothing on stdout.
func fail(t *testing.T, dir, want string, args ...string) {
	t.Helper()
	ends(t, command(t, dir, nil, args...), 1, want)
}

// misuse is fail for a command that is called in a wrong way.
func misuse(t *testing.T, dir, want string, args ...string) {
	t.Helper()
	ends(t, command(t, dir, nil, args...), wrongUsage, want)
}

// ends runs a command that has to fail, and tell why on stderr, without secrets.
func ends(t *testing.T, cmd *exec.Cmd, code int, want string) {
	t.Helper()
	out, messages, got := outcome(t, cmd)
	if got != code || out != "" || !strings.Contains(messages, want) || strings.Contains(messages, "secret-") {
		t.Errorf("%q: exit code %d, want %d and %q on stderr: %s, stdout: %s", cmd.Args[1:], got, code, want, messages, out)
	}
}

// failServer is fail for a server that cannot start: it tells on stderr, by a JSON line.
func failServer(t *testing.T, dir, want string, env []string, args ...string) {
	t.Helper()
	failServerBy(t, dir, 1, want, env, args...)
}

// failServerBy is failServer with an exit code.
func failServerBy(t *testing.T, dir string, wantCode int, want string, env []string, args ...string) {
	t.Helper()
	cmd := command(t, dir, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code tells more
	var line struct{ Level, Message, Error string }
	lines := bytes.Split(bytes.TrimSpace(stderr.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &line); err != nil {
		t.Errorf("%q: %v: %s", args, err, stderr.String())
	}
	if code := cmd.ProcessState.ExitCode(); code != wantCode || line.Level != "fatal" || line.Message == "" || !strings.Contains(line.Error, want) ||
		stdout.Len() > 0 || strings.Contains(stderr.String(), "secret-nonsense") {
		t.Errorf("%q: exit code %d, want %q in: %s, stdout: %s", args, code, want, stderr.String(), stdout.String())
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan error

	mu     sync.Mutex
	output bytes.Buffer // stdout and stderr
	grown  chan struct{}
}

// launch starts a server and waits for a text in its output.
func launch(t *testing.T, dir string, env []string, until string, args ...string) *process {
	t.Helper()
	return begin(t, command(t, dir, env, args...), until)
}

// begin is launch for a command that is made already.
func begin(t *testing.T, cmd *exec.Cmd, until string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan error, 1), grown: make(chan struct{}, 1)}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(r)
	go func() {
		p.done <- p.cmd.Wait()
		w.Close()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it may have ended
	p.await(until)
	return p
}

func (p *process) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		p.mu.Lock()
		p.output.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		select {
		case p.grown <- struct{}{}:
		default:
		}
	}
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// await waits for a text in the output, and returns the output.
func (p *process) await(text string) string {
	p.t.Helper()
	timeout := time.After(wait.Limit)
	for {
		if out := p.text(); strings.Contains(out, text) {
			return out
		}
		select {
		case <-p.grown:
		case <-timeout:
			p.t.Fatalf("%q does not come; output: %s", text, p.text())
		}
	}
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(wait.Limit):
		p.t.Fatalf("does not end; output: %s", p.text())
		return -1
	}
}

// freePort returns a port that is free.
func freePort(t *testing.T) string {
	t.Helper()
	port, err := porttest.Free()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// status of a GET request; 0 if there is no answer.
func status(url string) int {
	res, err := http.Get(url)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}
