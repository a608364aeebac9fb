//go:build unix

// Package redistest starts redis-server processes for tests: alone, under Sentinel and as a Cluster, on free loopback
// ports with their data in temporary folders. They end with the test.
//
// The environment variable GYRO_REDIS_SERVER may name the binary (Valkey, another version). Without redis-server, tests
// are skipped (package need).
package redistest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Options of a server.
type Options struct {
	// Password that clients need. Default: none.
	Password string
	// Persistent keeps data over Restart(false). Every write is in a file before it is answered.
	Persistent bool
	// TLS is for clients, and between servers. Default: plaintext.
	TLS *TLS
	// With Failover, a server of a Sentinel or a Cluster that does not answer for some two seconds is replaced. Without
	// it that takes minutes, so that a busy machine does not look like a dead server.
	Failover bool
	// DownAfter is that time with Sentinel. Default: half a second.
	DownAfter time.Duration
	// Replicas of the primary of a Sentinel. Default: one.
	Replicas int
	// Args of redis-server, such as "--maxmemory", "5mb".
	Args []string
}

// TLS has the files of a server that asks clients for certificates.
type TLS struct {
	// Cert and Key are for both sides of connections. CA signed the certificates of clients.
	Cert, Key, CA string
}

func (o *Options) tlsArgs() []string {
	if o.TLS == nil {
		return nil
	}
	return []string{
		tlsCert, o.TLS.Cert, "--tls-key-file", o.TLS.Key, "--tls-ca-cert-file", o.TLS.CA,
		"--tls-replication", "yes", "--tls-cluster", "yes",
	}
}

const tlsCert = "--tls-cert-file"

// Server is one process. Its methods fail the test on errors. Only Do and Addr may be called concurrently.
type Server struct {
	tb       testing.TB
	port     int // for clients
	plain    int // for Do; with TLS it is another port
	dir      string
	password string
	args     []string

	cmd    *exec.Cmd
	exited chan struct{}
	log    *syncBuffer
}

// Standalone starts a server that stands alone.
func Standalone(tb testing.TB, opts Options) *Server {
	tb.Helper()
	return standalone(tb, opts, nil)
}

// standalone: the server can write into the configuration, unless that is nil.
func standalone(tb testing.TB, opts Options, config []byte) *Server {
	tb.Helper()
	args := append([]string{"--save", "", "--appendonly", yesNo(opts.Persistent), "--appendfsync", "always"}, append(opts.tlsArgs(), opts.Args...)...)
	if opts.Password != "" {
		args = append(args, "--requirepass", opts.Password, "--masterauth", opts.Password)
	}
	return start(tb, opts.Password, args, config)
}

func start(tb testing.TB, password string, args []string, config []byte) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir(), password: password}
	tb.Cleanup(s.Kill)
	if config != nil {
		path := filepath.Join(s.dir, "server.conf")
		if err := os.WriteFile(path, config, 0o600); err != nil {
			tb.Fatal(err)
		}
		args = append([]string{path}, args...)
	}
	args = append(args, "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no")
	for range 10 {
		s.port = freePort(tb)
		s.plain = s.port
		s.args = args[:len(args):len(args)]
		if slices.Contains(args, tlsCert) {
			s.plain = freePort(tb)
			s.args = append(s.args, "--tls-port", strconv.Itoa(s.port))
		}
		s.args = append(s.args, "--port", strconv.Itoa(s.plain))
		if s.launch() {
			return s
		}
	}
	tb.Fatalf("redistest: no port for redis-server:\n%s", s.log)
	return nil
}

// Addr is host:port. Restarts do not change it.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Password that clients need, or empty.
func (s *Server) Password() string { return s.password }

// PID is 0 if the process is dead.
func (s *Server) PID() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Kill ends the process like kill -9, if it runs.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // also ends a stopped process; an error means it has ended
	<-s.exited
	s.cmd = nil
}

// Shutdown ends the process by SIGTERM. Redis saves its data if its configuration says so.
func (s *Server) Shutdown() {
	s.tb.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		s.cmd = nil
	case <-time.After(wait.Limit):
		s.tb.Fatalf("redistest: %s does not end within %v:\n%s", s.Addr(), wait.Limit, s.log)
	}
}

// Stop suspends the process (SIGSTOP): its connections stay, and it does not answer.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

// Restart starts another process on the same port, with the data of Options.Persistent, or empty.
func (s *Server) Restart(empty bool) {
	s.tb.Helper()
	s.Kill()
	if empty {
		s.wipe()
	}
	if !s.launch() {
		s.tb.Fatalf("redistest: port %d was taken:\n%s", s.port, s.log)
	}
}

func (s *Server) wipe() {
	for _, pattern := range []string{"appendonlydir", "appendonly.aof", "*.rdb"} {
		paths, _ := filepath.Glob(filepath.Join(s.dir, pattern)) // the pattern is well-formed
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				s.tb.Fatal(err)
			}
		}
	}
}

func (s *Server) signal(sig os.Signal) {
	s.tb.Helper()
	if s.cmd == nil {
		s.tb.Fatalf("redistest: %v for a dead server", sig)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("redistest: %v: %v", sig, err)
	}
}

// launch returns false if another process has the port.
func (s *Server) launch() (ok bool) {
	s.tb.Helper()
	s.log = &syncBuffer{}
	s.cmd = exec.Command(binary(s.tb), s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
	exited, cmd := make(chan struct{}), s.cmd
	s.exited = exited
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(exited)
	}()
	s.await("an answer", func() bool {
		select {
		case <-exited:
			if strings.Contains(s.log.String(), "Address already in use") {
				return true
			}
			s.tb.Fatalf("redistest: redis-server ended at once:\n%s", s.log)
		default:
		}
		reply, err := s.try("PING")
		ok = err == nil && reply == "PONG" && s.isMine()
		return ok
	})
	return ok
}

func (s *Server) isMine() bool {
	info, err := s.try("INFO", "server")
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r", s.cmd.Process.Pid))
}

func (s *Server) await(what string, done func() bool) {
	s.tb.Helper()
	if !wait.Within(wait.Limit, done) {
		s.tb.Fatalf("redistest: %s did not come within %v from %s:\n%s", what, wait.Limit, s.Addr(), s.log)
	}
}

func binary(tb testing.TB) string {
	tb.Helper()
	name := os.Getenv("GYRO_REDIS_SERVER")
	if name == "" {
		return need.Program(tb, "redis-server")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("redistest: GYRO_REDIS_SERVER: %v", err)
	}
	return path
}

// freePort: a cluster node uses the port 10,000 above for its bus.
func freePort(tb testing.TB) int {
	tb.Helper()
	port, err := porttest.FreePair(10000)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return port
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.buf.String())
}
