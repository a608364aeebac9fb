package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/server/consume/consumetest"
)

// cluster is the PostgreSQL that all tests share; each has a database of its own.
var cluster struct {
	once sync.Once
	dir  string
	port int
	cmd  *exec.Cmd
	err  error
	next int
	mu   sync.Mutex
}

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster.cmd != nil {
		_ = cluster.cmd.Process.Signal(os.Interrupt) // fast shutdown
		_ = cluster.cmd.Wait()
	}
	if cluster.dir != "" {
		_ = os.RemoveAll(cluster.dir)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// program finds a program of PostgreSQL, which Debian keeps outside of the PATH.
func program(name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is well-formed
	if len(found) > 0 {
		return found[len(found)-1]
	}
	return name
}

// startCluster starts PostgreSQL, which refuses to run as root.
func startCluster() (err error) {
	if cluster.dir, err = os.MkdirTemp("", "gyro-postgres"); err != nil {
		return err
	}
	attr := new(syscall.SysProcAttr)
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := os.Chown(cluster.dir, uid, gid); err != nil {
			return err
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	data := filepath.Join(cluster.dir, "data")
	initdb := exec.Command(program("initdb"), "-D", data, "-U", "gyro", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	initdb.SysProcAttr, initdb.Dir = attr, cluster.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cluster.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command(program("postgres"), "-D", data, "-p", strconv.Itoa(cluster.port), "-k", "", "-c", "listen_addresses=127.0.0.1")
	var log bytes.Buffer
	cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = attr, cluster.dir, &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	cluster.cmd = cmd
	for deadline := time.Now().Add(consumetest.Patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), dsn("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		if time.Now().After(deadline) {
			return errors.Join(err, errors.New(log.String()))
		}
	}
}

func dsn(database string) string {
	return fmt.Sprintf("postgres://gyro@127.0.0.1:%d/%s", cluster.port, database)
}

// database is a new database with the tables of the documentation.
type database struct {
	tb   testing.TB
	name string
	mu   sync.Mutex
	conn *pgx.Conn
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	cluster.once.Do(func() { cluster.err = startCluster() })
	if cluster.err != nil {
		tb.Fatal(cluster.err)
	}
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	cluster.next++
	d := &database{tb: tb, name: fmt.Sprint("test", cluster.next)}
	admin, err := pgx.Connect(tb.Context(), dsn("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(tb.Context(), "CREATE DATABASE "+d.name); err != nil {
		tb.Fatal(err)
	}
	if d.conn, err = pgx.Connect(tb.Context(), dsn(d.name)); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.conn.Close(context.Background()) })
	for _, statement := range documented(tb) {
		d.exec(statement)
	}
	return d
}

// documented returns the blocks of SQL in docs/consumers.md.
func documented(tb testing.TB) (blocks []string) {
	tb.Helper()
	page, err := os.ReadFile("../../../docs/consumers.md")
	if err != nil {
		tb.Fatal(err)
	}
	for i, part := range strings.Split(string(page), "```sql")[1:] {
		_, text, _ := strings.Cut(part, "\n")
		block, _, ok := strings.Cut(text, "```")
		if !ok {
			tb.Fatalf("block %d does not end", i)
		}
		blocks = append(blocks, block)
	}
	if len(blocks) == 0 {
		tb.Fatal("docs/consumers.md has no SQL")
	}
	return blocks
}

func (d *database) exec(sql string, args ...any) {
	d.tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.conn.Exec(context.Background(), sql, args...); err != nil {
		d.tb.Fatalf("%s: %v", sql, err)
	}
}

func (d *database) count(sql string, args ...any) (n int) {
	d.tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.conn.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		d.tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

// add adds a publication.
func (d *database) add(partition int, ch, data string) {
	d.tb.Helper()
	d.exec("INSERT INTO gyro_outbox (method, payload, partition) VALUES ('publish', jsonb_build_object('channel', $1::text, 'data', $2::text), $3)",
		ch, data, partition)
}

// rows is how many rows wait.
func (d *database) rows() int { d.tb.Helper(); return d.count("SELECT count(*) FROM gyro_outbox") }
