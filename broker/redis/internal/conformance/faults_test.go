package conformance

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestFaults: what was acknowledged holds while a Redis that keeps its data in a file
// breaks connections, hangs, restarts and forgets. With -short, it is one seed, which finds a loss that is not told.
func TestFaults(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2}
	if testing.Short() {
		seeds = seeds[1:]
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			faults(t, seed)
		})
	}
}

func faults(t *testing.T, seed uint64) {
	server := redistest.Standalone(t, redistest.Options{Persistent: true})
	shard := standalone(server)
	shard.IOTimeout = time.Second
	cfg := redis.Config{Shards: []redis.Shard{shard}, CanaryInterval: 100 * time.Millisecond, CanaryTimeout: time.Second, StartTimeout: wait.Limit,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	mishaps := []func(length time.Duration){
		func(time.Duration) { server.Do("CLIENT", "KILL", "TYPE", "pubsub") },
		func(time.Duration) { server.Do("CLIENT", "KILL", "TYPE", "normal") },
		func(length time.Duration) { server.Stop(); time.Sleep(length); server.Continue() },
		func(length time.Duration) { server.Kill(); time.Sleep(length); server.Restart(false) },
		func(length time.Duration) { server.Kill(); time.Sleep(length); server.Restart(true) },
	}
	caps := brokertest.Capabilities{Seed: seed, Fault: func(_ testing.TB, r *rand.Rand) {
		mishap := mishaps[r.IntN(len(mishaps))]
		mishap(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
	}}
	t.Run("Maps", func(t *testing.T) {
		cfg := cfg
		cfg.MapExpiryInterval = 100 * time.Millisecond
		maptest.RunFaults(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() }, caps)
	})
	t.Run("Cached maps", func(t *testing.T) {
		cfg := cfg
		cfg.MapExpiryInterval, cfg.Prefix = 100*time.Millisecond, "cached"
		maptest.RunFaults(t, func(t testing.TB) broker.Broker {
			return mapcache.New(newEngine(t, cfg).Broker(), mapcache.Config{SyncInterval: time.Second, Logger: cfg.Logger})
		}, caps)
	})
	brokertest.RunFaults(t,
		func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() },
		func(t testing.TB) broker.PresenceManager {
			engine := newEngine(t, cfg)
			if err := engine.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { engine.Close(t.Context()) })
			return engine.Presence()
		},
		caps)
}
