//go:build unix

// Package postgrestest starts real PostgreSQL servers for tests, each on a free loopback port with its data in a
// temporary folder. They run as the user of the test, or as postgres if that is root. Without the programs of
// PostgreSQL, tests are skipped (package need).
package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Options of a server. The zero value lets every client in as user gyro, who may do everything.
type Options struct {
	// Files are written into the folder of the data, where settings find them by their names.
	Files map[string][]byte
	// Settings are lines of postgresql.conf, such as "ssl=on".
	Settings []string
}

// Server is a PostgreSQL. Only Database, Do and Port may be called at a time.
type Server struct {
	dir      string
	port     int
	settings []string
	cmd      *exec.Cmd
	attr     *syscall.SysProcAttr // of its processes, which must not run as root
	number   atomic.Int64         // of databases
}

// Start starts a server for a program and waits until it answers. The caller calls Stop. Without the programs of
// PostgreSQL, the error says what to install.
func Start(o Options) (*Server, error) {
	if _, err := need.Path(initdb); err != nil {
		return nil, err
	}
	s := &Server{attr: new(syscall.SysProcAttr)}
	if err := s.start(o); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// New starts a server that ends with the test.
func New(tb testing.TB, o Options) *Server {
	tb.Helper()
	need.Program(tb, initdb)
	s, err := Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Shared is a server for the tests of a package, each with a database of its own. It starts when it is asked for.
// TestMain calls Stop.
type Shared struct {
	Options Options

	once   sync.Once
	server *Server
	err    error
}

// Server returns the server.
func (s *Shared) Server(tb testing.TB) *Server {
	tb.Helper()
	need.Program(tb, initdb)
	s.once.Do(func() { s.server, s.err = Start(s.Options) })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Database makes a database and returns its DSN.
func (s *Shared) Database(tb testing.TB) (dsn string) {
	tb.Helper()
	server := s.Server(tb)
	name, err := server.Database(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return server.DSN(name)
}

// Stop ends the server, if a test has asked for it.
func (s *Shared) Stop() {
	if s.server != nil {
		s.server.Stop()
	}
}

func (s *Server) start(o Options) (err error) {
	if s.dir, err = os.MkdirTemp("", "gyro-postgres"); err != nil {
		return err
	}
	if err := s.own(s.dir); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	cmd := exec.Command(program(initdb), "-D", data, "-U", "gyro", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	cmd.SysProcAttr, cmd.Dir = s.attr, s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	for name, content := range o.Files {
		file := filepath.Join(data, name)
		if err := errors.Join(os.WriteFile(file, content, 0o600), s.own(file)); err != nil {
			return err
		}
	}
	s.settings = o.Settings
	return s.run()
}

func (s *Server) own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(u.Uid) // numbers, on Unix
	gid, _ := strconv.Atoi(u.Gid)
	s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(path, uid, gid)
}

func (s *Server) run() error {
	if s.port == 0 {
		port, err := porttest.Free() // no other process takes it while the server is away
		if err != nil {
			return err
		}
		s.port = port
	}
	args := []string{"-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port), "-k", s.dir, "-c", "listen_addresses=127.0.0.1"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(program("postgres"), args...)
	var log bytes.Buffer
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = s.attr, s.dir, &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	var err error
	if !wait.Within(wait.Limit, func() bool { err = s.Do(context.Background(), "postgres", "SELECT 1"); return err == nil }) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // afterwards the process does not write to the log
		s.cmd = nil
		return errors.Join(err, errors.New(log.String()))
	}
	return nil
}

// Stop ends the server, and removes its data.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(os.Interrupt) // fast shutdown
		_ = s.cmd.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Kill ends the server like a crash. Committed data stay.
func (s *Server) Kill() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // all of its processes end at once
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Signal sends a signal to all processes of the server: with SIGSTOP it hangs until SIGCONT. It needs Linux.
func (s *Server) Signal(signal syscall.Signal) error {
	pid := s.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return err
	}
	failure := s.cmd.Process.Signal(signal)
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(id, signal) // it may have ended
		}
	}
	return failure
}

// Restart starts a server again that was killed, on the same port.
func (s *Server) Restart() error { return s.run() }

// Standby starts a server that replicates this one from now on. The caller calls Stop.
func (s *Server) Standby() (*Server, error) {
	r := &Server{attr: new(syscall.SysProcAttr), settings: s.settings}
	if err := r.replicate(s); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

func (s *Server) replicate(primary *Server) (err error) {
	if s.dir, err = os.MkdirTemp("", "gyro-postgres"); err != nil {
		return err
	}
	if err := s.own(s.dir); err != nil {
		return err
	}
	backup := exec.Command(program("pg_basebackup"), "-D", filepath.Join(s.dir, "data"), "-h", primary.dir, "-p", strconv.Itoa(primary.port),
		"-U", "gyro", "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	backup.SysProcAttr, backup.Dir = s.attr, s.dir
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	return s.run()
}

// Promote makes a standby a primary.
func (s *Server) Promote(ctx context.Context) error {
	return s.Do(ctx, "postgres", "SELECT pg_promote()")
}

// Database makes a database and returns its name.
func (s *Server) Database(ctx context.Context) (string, error) {
	name := fmt.Sprint("test", s.number.Add(1))
	return name, s.Do(ctx, "postgres", "CREATE DATABASE "+name)
}

// Do executes a statement in a database.
func (s *Server) Do(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, s.Socket(database))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Cut ends all connections to a database.
func (s *Server) Cut(ctx context.Context, database string) error {
	return s.Do(ctx, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+database+"'")
}

// Port is the server's port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// DSN returns the DSN of a database, over TCP.
func (s *Server) DSN(database string) string {
	return fmt.Sprintf("postgres://gyro@127.0.0.1:%d/%s", s.port, database)
}

// Socket is the DSN of a database by a Unix socket, where everybody gets in.
func (s *Server) Socket(database string) string {
	return fmt.Sprintf("host=%s port=%d user=gyro database=%s", s.dir, s.port, database)
}

const initdb = "initdb"

// program returns the path of a program of PostgreSQL, in the same version as initdb, which is there.
func program(name string) string {
	path, _ := need.Find(initdb)
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return filepath.Join(filepath.Dir(path), name)
}
