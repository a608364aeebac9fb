// Package rig sets up the servers for the end-to-end suites of all languages: the built server, a program that uses the
// library, and proxies that fail as networks do.
package rig

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
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
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/porttest"
)

const (
	TokenSecret = "e2e-token-secret"
	APIKey      = "e2e-api-key"
)

//go:embed config.json
var configFile []byte

var builtIn string

// Binary returns the path of the server: E2E_GYRO, or a build of the working tree, made once per process and removed by
// Clean and Rig.Stop.
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

// Clean removes what Binary has built. Rig.Stop calls it.
func Clean() {
	if builtIn != "" {
		_ = os.RemoveAll(builtIn) // if it fails, the folder stays in the folder of temporary files
	}
}

// Run runs the tests of a package, and returns the status for os.Exit. It calls Clean.
func Run(m *testing.M) int {
	defer Clean()
	return m.Run()
}

// Server is a running process of the binary, or a cluster of them.
type Server struct {
	// Addr is host:port of its HTTP listener; of a cluster, of the proxy in front of it.
	Addr string
	Port int // of Addr; 0 for a cluster
	// Public is host:port for clients: Addr, unless Addr has TLS. A cluster has none.
	Public string
	// UniGRPC is host:port for one-way gRPC clients, if the rig has started it; of a cluster, of its first node.
	UniGRPC string
	// GRPCAPI is host:port of the gRPC API, likewise.
	GRPCAPI string

	*process // nil for a cluster

	nodes    []*Server // of a cluster
	front    *Proxy
	balancer *balancer
}

// StartServer runs the binary on a port of 127.0.0.1, and returns when it answers.
func StartServer(port int, args, env []string) (*Server, error) {
	s, err := Launch(port, args, env)
	if err != nil {
		return nil, err
	}
	client := http.Client{Timeout: time.Second}
	err = s.await(func() bool {
		resp, err := client.Get("http://" + s.Addr + "/health")
		return err == nil && resp.Body.Close() == nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w\n%s", s.cmd.Path, args, err, &s.output)
	}
	return s, nil
}

// Launch is StartServer without the wait.
func Launch(port int, args, env []string) (*Server, error) {
	bin, err := Binary()
	if err != nil {
		return nil, err
	}
	return LaunchProgram(bin, port, args, env)
}

// LaunchProgram is Launch with another build of the server.
func LaunchProgram(bin string, port int, args, env []string) (*Server, error) {
	cmd := exec.Command(bin, args...)
	// A binary with the race detector ends at the first race, so that the suites notice.
	cmd.Env = append(append(os.Environ(), "GORACE=halt_on_error=1", "GYRO_SHUTDOWN_DELAY=-1s"), env...)
	p, err := run(cmd)
	if err != nil {
		return nil, err
	}
	addr := loopback(port)
	return &Server{Addr: addr, Public: addr, Port: port, process: p}, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// startConfigured runs the binary with the suites' configuration on free ports. With a certificate, the port for clients
// has TLS and HTTP/3.
func startConfigured(dir string, c *certificate, env ...string) (*Server, error) {
	file := filepath.Join(dir, "config.json")
	text, err := configText()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	var ports [4]int
	for i := range ports {
		if ports[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	port, public, grpc, grpcAPI := ports[0], ports[0], ports[1], ports[3]
	env = append(env[:len(env):len(env)], "GYRO_UNI_GRPC_PORT="+strconv.Itoa(grpc), "GYRO_GRPC_API_PORT="+strconv.Itoa(grpcAPI))
	if c != nil {
		public = ports[2]
		env = append(env, "GYRO_HTTP_SERVER_INTERNAL_PORT="+strconv.Itoa(port), "GYRO_HTTP_SERVER_TLS_EXTERNAL=true",
			"GYRO_HTTP_SERVER_TLS_ENABLED=true", "GYRO_HTTP_SERVER_TLS_CERT_PEM="+c.certPEM, "GYRO_HTTP_SERVER_TLS_KEY_PEM="+c.keyPEM,
			"GYRO_HTTP_SERVER_HTTP3_ENABLED=true", "GYRO_WEBTRANSPORT_ENABLED=true")
	}
	s, err := StartServer(port, []string{"-c", file, "-p", strconv.Itoa(public)}, env)
	if err == nil {
		s.Public, s.UniGRPC, s.GRPCAPI = loopback(public), loopback(grpc), loopback(grpcAPI)
	}
	return s, err
}

// FreePort returns a port that is free.
func FreePort() (int, error) { return porttest.Free() }

// Port is FreePort for a test, which ends if there is none.
func Port(tb testing.TB) int {
	tb.Helper()
	port, err := FreePort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// Stop shuts the server down, and kills it if that takes longer than 10 seconds.
func (s *Server) Stop() { s.StopWithin(10 * time.Second) }

// StopWithin is Stop with another limit.
func (s *Server) StopWithin(limit time.Duration) {
	if s.process == nil {
		s.stopCluster()
		return
	}
	s.terminate()
	select {
	case <-s.exited:
	case <-time.After(limit):
		s.Kill()
	}
}

func (s *Server) terminate() { _ = s.cmd.Process.Signal(syscall.SIGTERM) } // it may have ended already

func (s *Server) Log() string {
	if s.process != nil {
		return s.output.String()
	}
	var b strings.Builder
	for _, n := range s.nodes {
		fmt.Fprintf(&b, "node %s\n%s", n.Addr, n.Log())
	}
	return b.String()
}

// Streams is host:port for HTTP streams and emulation requests; of a cluster, of a load balancer, which sends no
// emulation request to the node with the stream.
func (s *Server) Streams() string {
	if s.balancer != nil {
		return s.balancer.addr()
	}
	return s.Addr
}

func (s *Server) WS() string { return "ws://" + s.Addr + "/connection/websocket" }

// API calls a method of the server API, as Call does.
func (s *Server) API(ctx context.Context, method string, params, result any) error {
	return Call(ctx, http.DefaultClient, s.Addr, method, params, result)
}

// Call calls a method of the server API at addr, host:port. result may be nil. An error of the API is an *APIError.
func Call(ctx context.Context, client *http.Client, addr, method string, params, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", APIKey)
	resp, err := client.Do(req)
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
	switch {
	case answer.Error != nil:
		return answer.Error
	case answer.Result == nil:
		return fmt.Errorf("%s: the answer has neither an error nor a result", method)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answer.Result, result)
}

type APIError struct {
	Code    int
	Message string
}

func (e *APIError) Error() string { return fmt.Sprintf("api error %d: %s", e.Code, e.Message) }
