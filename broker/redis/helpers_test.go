package redis_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// metric returns the sum of what a broker tells under a name with a value of a label; -1 if
// there is nothing.
func metric(b *redis.Broker, name, label string) float64 {
	sum := -1.0
	for _, m := range b.Describe().Metrics() {
		if m.Name == name && slices.Contains(slices.Collect(maps.Values(m.Labels)), label) {
			sum = max(sum, 0) + m.Value
		}
	}
	return sum
}

func standalone(s *redistest.Server) redis.Shard {
	return redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()}
}

// newEngine makes an engine. Unless the configuration says something else, no pace of the machine is taken for a fault.
func newEngine(t testing.TB, cfg redis.Config) *redis.Engine {
	t.Helper()
	cfg.Shards = slices.Clone(cfg.Shards)
	for i := range cfg.Shards {
		s := &cfg.Shards[i]
		s.ConnectTimeout, s.IOTimeout = cmp.Or(s.ConnectTimeout, wait.Limit), cmp.Or(s.IOTimeout, wait.Limit)
	}
	cfg.CanaryTimeout = cmp.Or(cfg.CanaryTimeout, wait.Limit)
	engine, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func newBroker(t testing.TB, cfg redis.Config) *redis.Broker {
	t.Helper()
	return newEngine(t, cfg).Broker().(*redis.Broker)
}
