// Package conformance runs brokertest on every kind of Redis. It has no code
// besides: its tests mostly wait for times to live, so many of them run at a time.
package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
)

// unit of the conformance tests' times to live: short, as they really pass, and
// long enough for a busy machine.
const unit = 600 * time.Millisecond

// setups are the ways in which Redis is run. Each is made once per test.
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
		return []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}
	},
	"cluster": func(t testing.TB) []redis.Shard {
		return []redis.Shard{{Addresses: redistest.NewCluster(t, redistest.Options{}).Addresses()}}
	},
}

func standalone(s *redistest.Server) redis.Shard {
	return redis.Shard{Addresses: []string{s.Addr()}, Password: s.Password()}
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shards := setup(t)
			cfg := redis.Config{Shards: shards}
			t.Run("stream", func(t *testing.T) { t.Parallel(); conform(t, cfg) })
			t.Run("maps", func(t *testing.T) { t.Parallel(); conformMaps(t, cfg) })
			t.Run("cached maps", func(t *testing.T) { t.Parallel(); conformCached(t, cfg) })
			lists := cfg
			lists.HistoryUseLists, lists.Prefix = true, "lists"
			t.Run("list", func(t *testing.T) { t.Parallel(); conform(t, lists) })
			if name == "cluster" {
				sharded := cfg
				sharded.ShardedPubSubPartitions, sharded.Prefix = 4, "sharded"
				t.Run("sharded PUBSUB", func(t *testing.T) {
					t.Parallel()
					need(t, sharded, "SPUBLISH")
					conform(t, sharded)
					sharded.Prefix = "sharded maps"
					conformMaps(t, sharded)
				})
			}
			if name == "standalone" {
				resp2 := cfg
				resp2.Shards = []redis.Shard{shards[0]}
				resp2.Shards[0].ForceRESP2, resp2.Prefix = true, "resp2"
				t.Run("RESP2", func(t *testing.T) { t.Parallel(); conform(t, resp2) })
			}
			if name != "standalone" && name != "cluster" {
				return
			}
			for _, mapped := range []bool{false, true} {
				presence := cfg
				presence.PresenceTTL, presence.PresenceUserMapping, presence.Prefix = 10*unit, mapped, fmt.Sprint("presence", mapped)
				t.Run(presence.Prefix, func(t *testing.T) { t.Parallel(); conformPresence(t, presence) })
				fields := presence
				fields.PresenceHashFieldTTL, fields.Prefix = true, "fields"+presence.Prefix
				t.Run(fields.Prefix, func(t *testing.T) {
					t.Parallel()
					need(t, fields, "HPEXPIRE")
					conformPresence(t, fields)
				})
			}
		})
	}
}

// need skips the test if the server is too old for the configuration.
func need(t *testing.T, cfg redis.Config, command string) {
	t.Helper()
	engine := newEngine(t, cfg)
	defer engine.Close(t.Context())
	if err := engine.Connect(t.Context()); err != nil && strings.Contains(err.Error(), "does not know "+command) {
		t.Skip(err)
	}
}

func conform(t *testing.T, cfg redis.Config) {
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() },
		brokertest.Capabilities{Unit: unit})
	t.Run("Control", func(t *testing.T) {
		brokertest.RunControl(t, func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() }, brokertest.Capabilities{})
	})
}

func conformMaps(t *testing.T, cfg redis.Config) {
	cfg.MapExpiryInterval = unit / 6
	cfg.Prefix += "maps"
	newBroker := func(t testing.TB) broker.Broker { return newEngine(t, cfg).Broker() }
	maptest.Run(t, newBroker, brokertest.Capabilities{Unit: unit})
	maptest.RunNodes(t, newBroker, brokertest.Capabilities{Unit: unit})
}

// conformCached: Redis behind a cache of maps does what Redis does.
func conformCached(t *testing.T, cfg redis.Config) {
	cfg.MapExpiryInterval, cfg.Prefix = unit/6, "cached"
	newBroker := func(t testing.TB) broker.Broker { return mapcache.New(newEngine(t, cfg).Broker(), mapcache.Config{}) }
	caps := brokertest.Capabilities{Unit: unit}
	maptest.Run(t, newBroker, caps)
	maptest.RunNodes(t, newBroker, caps)
	brokertest.RunBroker(t, newBroker, caps)
}

func conformPresence(t *testing.T, cfg redis.Config) {
	brokertest.RunPresence(t, func(t testing.TB) broker.PresenceManager {
		engine := newEngine(t, cfg)
		if err := engine.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close(t.Context()) })
		return engine.Presence()
	}, cfg.PresenceTTL, brokertest.Capabilities{Unit: unit})
}
