package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// shared is the PostgreSQL of all tests; each has a database of its own.
var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
	next   atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

func dsn(database string) string { return shared.server.DSN(database) }

// database is a new database with the tables of the documentation.
type database struct {
	tb   testing.TB
	name string
	mu   sync.Mutex
	conn *pgx.Conn
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.Start(postgrestest.Options{}) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	d := &database{tb: tb, name: fmt.Sprint("test", shared.next.Add(1))}
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
