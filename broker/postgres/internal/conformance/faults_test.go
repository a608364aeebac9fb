package conformance

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestFaults: acknowledged publications are kept while PostgreSQL restarts after crashes, hangs, and ends connections. With
// -short, the test runs one seed, and nodes poll.
func TestFaults(t *testing.T) {
	t.Parallel()
	ways, seeds := []bool{false, true}, uint64(2)
	if testing.Short() {
		ways, seeds = ways[:1], 1
	}
	for _, notify := range ways {
		t.Run(fmt.Sprint("notify=", notify), func(t *testing.T) {
			t.Parallel()
			faults(t, notify, seeds)
		})
	}
}

func faults(t *testing.T, notify bool, seeds uint64) {
	server := postgrestest.New(t, fast)
	name, err := server.Database(t.Context())
	must(t, err)
	cfg := postgres.Config{
		DSN: server.DSN(name), BinaryData: notify, UseNotify: notify, NumShards: 3, Timeout: 3 * time.Second, StartTimeout: wait.Limit,
		PollInterval: 20 * time.Millisecond, MapExpiryInterval: 100 * time.Millisecond, CleanupInterval: 300 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	mishaps := []func(t testing.TB, length time.Duration){
		func(t testing.TB, _ time.Duration) { must(t, server.Cut(t.Context(), name)) },
		func(t testing.TB, length time.Duration) { server.Kill(); time.Sleep(length); must(t, server.Restart()) },
		func(t testing.TB, length time.Duration) {
			must(t, server.Signal(syscall.SIGSTOP))
			time.Sleep(length)
			must(t, server.Signal(syscall.SIGCONT))
		},
	}
	for seed := range seeds {
		caps := brokertest.Capabilities{Seed: seed + 1, Fault: func(t testing.TB, r *rand.Rand) {
			mishaps[r.IntN(len(mishaps))](t, time.Duration(r.Int64N(int64(1500*time.Millisecond))))
		}}
		make := func(t testing.TB) broker.Broker { return newBroker(t, cfg) }
		t.Run(fmt.Sprint("streams, seed=", caps.Seed), func(t *testing.T) { brokertest.RunFaults(t, make, nil, caps) })
		t.Run(fmt.Sprint("maps, seed=", caps.Seed), func(t *testing.T) { maptest.RunFaults(t, make, caps) })
	}
}
