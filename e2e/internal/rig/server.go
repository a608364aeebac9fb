// Package rig sets up what the end-to-end suites of all languages run against:
// the built server, a program that uses the library, and TCP proxies that can cut
// or silence a connection.
package rig

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Secrets of the servers; see config.json.
const (
	TokenSecret = "e2e-token-secret"
	APIKey      = "e2e-api-key"
)

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 20 * time.Second

//go:embed config.json
var configFile []byte

// builtIn is the folder that Binary made, if it did; Rig.Stop removes it.
var builtIn string

// Binary returns the path of the server: E2E_GYRO, or a build of the working tree
// that is made once per process and removed by Rig.Stop.
var Binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("E2E_GYRO"); path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	dir, err := os.MkdirTemp("", "gyro-e2e-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "gyro")
	out, err := exec.Command("go", "build", "-o", path, "github.com/gyrohq/gyro/server/cmd/gyro").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the server: %w\n%s", err, out)
	}
	return path, nil
})

// Clean removes the binary that Binary built. Rig.Stop does it too.
func Clean() {
	if builtIn != "" {
		_ = os.RemoveAll(builtIn) // left to the system otherwise
	}
}

// Server is a running process of the binary.
type Server struct {
	// Addr is host:port of its HTTP listener.
	Addr string

	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}

	// Of a cluster.
	nodes []*Server
	front *Proxy
}

// StartServer runs the binary with these arguments and further environment
// variables on a port of 127.0.0.1, and returns when the server answers there.
func StartServer(port int, args, env []string) (*Server, error) {
	s, err := Launch(port, args, env)
	if err != nil {
		return nil, err
	}
	if err := s.awaitAnswer(); err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s %q: %w\n%s", s.cmd.Path, args, err, s.log)
	}
	return s, nil
}

// Launch is StartServer that does not wait for an answer.
func Launch(port int, args, env []string) (*Server, error) {
	bin, err := Binary()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Addr:   net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		cmd:    exec.Command(bin, args...),
		log:    &lockedBuffer{},
		exited: make(chan struct{}),
	}
	// A binary that was built with the race detector ends at the first race, so that
	// the suites notice.
	s.cmd.Env = append(append(os.Environ(), "GORACE=halt_on_error=1"), env...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is visible in the log
		close(s.exited)
	}()
	return s, nil
}

// StartConfigured runs the binary with the suites' configuration on a free port.
func StartConfigured(dir string, env ...string) (*Server, error) {
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, configFile, 0o600); err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	return StartServer(port, []string{"-c", file, "-p", strconv.Itoa(port)}, env)
}

// FreePort returns a port that was free a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// awaitAnswer polls the listener, as any supervisor would: the process tells nobody
// when it begins to accept.
func (s *Server) awaitAnswer() error {
	deadline := time.Now().Add(startTimeout)
	client := http.Client{Timeout: time.Second}
	for time.Now().Before(deadline) {
		resp, err := client.Get("http://" + s.Addr + "/health")
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-s.exited:
			return errors.New("the server ended")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("no answer on %s within %v", s.Addr, startTimeout)
}

// Stop ends the server in the orderly way, and by force if that takes too long.
func (s *Server) Stop() {
	if s.cmd == nil {
		s.stopCluster()
		return
	}
	s.terminate()
	select {
	case <-s.exited:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
}

func (s *Server) terminate() { _ = s.cmd.Process.Signal(syscall.SIGTERM) } // it may have ended already

// Kill ends the server like kill -9: nothing is said to anybody.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.exited
}

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// PID of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log is what the server wrote so far.
func (s *Server) Log() string {
	if s.cmd != nil {
		return s.log.String()
	}
	var b strings.Builder
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "node %s\n%s", n.Addr, n.Log())
	}
	return b.String()
}

// WS is the address of the WebSocket endpoint.
func (s *Server) WS() string { return "ws://" + s.Addr + "/connection/websocket" }

// API calls a method of the server API. An error of the API is an *APIError.
func (s *Server) API(ctx context.Context, method string, params, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: HTTP status %d: %s", method, resp.StatusCode, data)
	}
	answer := struct {
		Error  *APIError
		Result json.RawMessage
	}{}
	if err := json.Unmarshal(data, &answer); err != nil {
		return fmt.Errorf("%s: %w in %s", method, err, data)
	}
	if answer.Error != nil {
		return answer.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

// APIError is an error of the server API.
type APIError struct {
	Code    int
	Message string
}

func (e *APIError) Error() string { return fmt.Sprintf("api error %d: %s", e.Code, e.Message) }

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
