package conformance

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// theServer is the PostgreSQL of all tests.
var theServer *postgrestest.Server

// TestMain lets the parallel tests, which mostly wait for times to live, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	err := flag.Set("test.parallel", "32")
	if err == nil {
		theServer, err = postgrestest.Start(postgrestest.Options{Settings: []string{"fsync=off", "max_connections=500"}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	theServer.Stop()
	os.Exit(code)
}

// database makes a database and returns its DSN.
func database(t *testing.T) (dsn string) {
	t.Helper()
	name, err := theServer.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return theServer.DSN(name)
}

// startNATS runs a NATS server in the process.
func startNATS(t *testing.T) (url string) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not get ready")
	}
	return s.ClientURL()
}
