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

var shared = postgrestest.Shared{Options: fast}

var theStandby struct {
	once   sync.Once
	server *postgrestest.Server
	err    error
}

// TestMain lets the parallel tests, which mostly wait for times to live, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := m.Run()
	if theStandby.server != nil {
		theStandby.server.Stop()
	}
	shared.Stop()
	os.Exit(code)
}

// fast: the server answers before its data are on the disk, which only a crash of the machine needs.
var fast = postgrestest.Options{Settings: []string{"fsync=off", "jit=off", "autovacuum=off", "max_connections=400", "shared_buffers=64MB"}}

func standby(tb testing.TB, dsn string) string {
	tb.Helper()
	s := &theStandby
	s.once.Do(func() { s.server, s.err = shared.Server(tb).Standby() })
	must(tb, s.err)
	return s.server.DSN(dsn[strings.LastIndex(dsn, "/")+1:])
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
