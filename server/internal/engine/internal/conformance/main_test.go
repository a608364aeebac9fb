package conformance

import (
	"flag"
	"os"
	"testing"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
)

// shared is the PostgreSQL of all tests.
var shared = postgrestest.Shared{Options: postgrestest.Options{Settings: []string{"fsync=off", "max_connections=500"}}}

// TestMain lets the parallel tests, which mostly wait for times to live, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}
