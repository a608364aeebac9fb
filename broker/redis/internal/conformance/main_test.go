package conformance

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets the parallel tests, which mostly wait for times to live, be many.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
