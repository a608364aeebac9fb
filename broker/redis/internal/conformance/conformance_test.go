// Package conformance runs brokertest on every kind of Redis. It has no code
// besides: its tests mostly wait for times to live, so many of them run at a time.
package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// unit of the conformance tests' times to live: short, as they really pass.
const unit = 300 * time.Millisecond

// setups are the ways in which Redis is run. Each is made once per test. With -short, it is one server.
var setups = map[string]func(t testing.TB) []redis.Shard{
	"standalone": func(t testing.TB) []redis.Shard {
		return []redis.Shard{standalone(redistest.Standalone(t, redistest.Options{Password: "secret"}))}
	},
	"two shards": func(t testing.TB) []redis.Shard {
		return []redis.Shard{
			standalone(redistest.Standalone(t, redistest.Options{})),
			standalone(redistest.Standalone(t, redistest.Options{})),
		}
	},
	"sentinel": func(t testing.TB) []redis.Shard {
		s := redistest.NewSentinel(t, redistest.Options{})
		return []redis.Shard{patient(redis.Shard{Addresses: s.Addresses(), SentinelMaster: s.Master})}
	},
	"cluster": func(t testing.TB) []redis.Shard {
		return []redis.Shard{patient(redis.Shard{Addresses: redistest.NewCluster(t, redistest.Options{}).Addresses()})}
	},
}

func standalone(s *redistest.Server) redis.Shard {
	return patient(redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()})
}

// patient has a busy machine not be taken for a fault.
func patient(s redis.Shard) redis.Shard {
	s.ConnectTimeout, s.IOTimeout = wait.Limit, wait.Limit
	return s
}

func newEngine(t testing.TB, cfg redis.Config) *redis.Engine {
	t.Helper()
	engine, err := redis.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestConformance(t *testing.T) {
	for name, setup := range setups {
		if testing.Short() && name != "standalone" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := redis.Config{Shards: setup(t), CanaryTimeout: wait.Limit}
			late := name == "cluster" // its servers pass publications on to one another
			t.Run("stream", func(t *testing.T) { conform(t, cfg, late) })
			t.Run("maps", func(t *testing.T) { conformMaps(t, cfg) })
			if name == "standalone" || name == "cluster" {
				conformPresences(t, cfg)
			}
			if !testing.Short() {
				t.Run("cached maps", func(t *testing.T) { conformCached(t, cfg) })
				conformModes(t, cfg, name, late)
			}
		})
	}
}

// conformModes runs the suite with other settings of the engine.
func conformModes(t *testing.T, cfg redis.Config, setup string, late bool) {
	lists := cfg
	lists.HistoryUseLists, lists.Prefix = true, "lists"
	t.Run("list", func(t *testing.T) { conform(t, lists, late) })
	switch setup {
	case "cluster":
		sharded := cfg
		sharded.ShardedPubSubPartitions, sharded.Prefix = 4, "sharded"
		t.Run("sharded PUBSUB", func(t *testing.T) {
			knows(t, sharded, "SPUBLISH")
			conform(t, sharded, false)
			sharded.Prefix = "sharded maps"
			conformMaps(t, sharded)
		})
	case "standalone":
		resp2 := cfg
		resp2.Shards = slices.Clone(cfg.Shards)
		resp2.Shards[0].ForceRESP2, resp2.Prefix = true, "resp2"
		t.Run("RESP2", func(t *testing.T) { conform(t, resp2, false) })
	}
}

// conformPresences tests presence in each of its forms.
func conformPresences(t *testing.T, cfg redis.Config) {
	for _, mapped := range []bool{false, true} {
		presence := cfg
		presence.PresenceUserMapping, presence.Prefix = mapped, fmt.Sprint("presence", mapped)
		t.Run(presence.Prefix, func(t *testing.T) { conformPresence(t, presence) })
		fields := presence
		fields.PresenceHashFieldTTL, fields.Prefix = true, "fields"+presence.Prefix
		t.Run(fields.Prefix, func(t *testing.T) {
			knows(t, fields, "HPEXPIRE")
			conformPresence(t, fields)
		})
	}
}

// knows skips the test if the server is too old for the configuration.
func knows(t *testing.T, cfg redis.Config, command string) {
	t.Helper()
	engine := newEngine(t, cfg)
	defer engine.Close(t.Context())
	if err := engine.Connect(t.Context()); err != nil && strings.Contains(err.Error(), "does not know "+command) {
		t.Skip(need.Line("a redis-server that knows "+command, "set GYRO_REDIS_SERVER to a later version"))
	}
}

// conform runs the suite. late is that of its capabilities.
func conform(t *testing.T, cfg redis.Config, late bool) {
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() },
		brokertest.Capabilities{Unit: unit, Late: late})
	t.Run("Control", func(t *testing.T) {
		brokertest.RunControl(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() }, brokertest.Capabilities{})
	})
}

func conformMaps(t *testing.T, cfg redis.Config) {
	cfg.MapExpiryInterval = unit / 3
	cfg.Prefix += "maps"
	maptest.Run(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() }, brokertest.Capabilities{Unit: unit})
	maptest.RunNodes(t, func(t testing.TB) broker.Broker { return newEngine(t, apart(t, cfg)).Broker() }, brokertest.Capabilities{Unit: unit})
}

// apart gives the nodes of a test a prefix of their own, so that no node of another test has their entries expire.
func apart(t testing.TB, cfg redis.Config) redis.Config {
	cfg.Prefix = t.Name()
	return cfg
}

// conformCached: Redis behind a cache of maps does the same. Streams pass through the cache, which the tests of mapcache show.
func conformCached(t *testing.T, cfg redis.Config) {
	cfg.MapExpiryInterval, cfg.Prefix = unit/3, "cached"
	cached := func(t testing.TB, cfg redis.Config) broker.Broker {
		return mapcache.New(newEngine(t, cfg).Broker(), mapcache.Config{})
	}
	caps := brokertest.Capabilities{Unit: unit}
	maptest.Run(t, func(t testing.TB) broker.Broker { return cached(t, cfg) }, caps)
	maptest.RunNodes(t, func(t testing.TB) broker.Broker { return cached(t, apart(t, cfg)) }, caps)
}

func conformPresence(t *testing.T, cfg redis.Config) {
	brokertest.RunPresence(t, func(t testing.TB, ttl time.Duration) broker.PresenceManager {
		cfg := cfg
		cfg.PresenceTTL = ttl
		engine := newEngine(t, cfg)
		if err := engine.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close(t.Context()) })
		return engine.Presence()
	}, brokertest.Capabilities{Unit: unit})
}
