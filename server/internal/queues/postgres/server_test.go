package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// shared is the PostgreSQL of all tests.
var shared = postgrestest.Shared{Options: postgrestest.Options{Settings: []string{"fsync=off"}}}

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Stop()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// database is a new database with the tables of the documentation.
type database struct {
	tb   testing.TB
	dsn  string
	mu   sync.Mutex
	conn *pgx.Conn
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	d := &database{tb: tb, dsn: shared.Database(tb)}
	var err error
	if d.conn, err = pgx.Connect(tb.Context(), d.dsn); err != nil {
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
	page, err := os.ReadFile("../../../../docs/consumers.md")
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
