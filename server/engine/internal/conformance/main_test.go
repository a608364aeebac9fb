package conformance

import (
	"flag"
	"fmt"
	"os"
	"testing"

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
