package conformance

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// shared is the PostgreSQL of the tests without faults.
var shared struct {
	once   sync.Once
	server *postgrestest.Server
	err    error

	standbyOnce sync.Once
	standby     *postgrestest.Server
}

// TestMain lets the parallel tests, which mostly wait for times to live, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	code := m.Run()
	if shared.standby != nil {
		shared.standby.Stop()
	}
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

// fast has a server answer before its data are on the disk, which only outlive a crash of the machine.
var fast = postgrestest.Options{Settings: []string{"fsync=off", "max_connections=400", "shared_buffers=64MB"}}

// newDatabase returns the DSN of a new database.
func newDatabase(tb testing.TB) string {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = postgrestest.Start(fast) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return databaseOf(tb, shared.server)
}

// standby returns the DSN of a database of newDatabase at a standby.
func standby(tb testing.TB, dsn string) string {
	tb.Helper()
	var err error
	shared.standbyOnce.Do(func() { shared.standby, err = shared.server.Standby() })
	must(tb, err)
	if shared.standby == nil {
		tb.Fatal("there is no standby")
	}
	return shared.standby.DSN(dsn[strings.LastIndex(dsn, "/")+1:])
}

func databaseOf(tb testing.TB, server *postgrestest.Server) string {
	tb.Helper()
	name, err := server.Database(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return server.DSN(name)
}

func newBroker(tb testing.TB, cfg postgres.Config) *postgres.Broker {
	tb.Helper()
	b, err := postgres.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(fmt.Sprint(err))
	}
}
