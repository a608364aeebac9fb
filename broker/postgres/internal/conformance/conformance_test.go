// Package conformance runs brokertest and maptest on PostgreSQL, in a package of its own, because the tests mostly wait
// for times to live: many run at a time.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// unit of the tests' times to live: short, as they really pass.
const unit = 300 * time.Millisecond

// variants are configurations that deliver rows in different ways. With -short, rows are polled for, which is the default.
func variants(t *testing.T, dsn string) map[string]postgres.Config {
	variants := map[string]postgres.Config{"polling": {PollInterval: 100 * time.Millisecond, TablePrefix: "poll"}}
	if !testing.Short() {
		variants["notifications"] = postgres.Config{UseNotify: true, TablePrefix: "notify", NumShards: 3, BatchSize: 7}
		variants["replica"] = postgres.Config{PollInterval: 50 * time.Millisecond, TablePrefix: "copied", NumShards: 2, Replicas: []string{standby(t, dsn)}}
	}
	for name, cfg := range variants {
		cfg.PoolSize, cfg.DSN, cfg.BinaryData, cfg.Timeout = 4, dsn, true, wait.Limit // a busy machine is no fault
		variants[name] = cfg
	}
	return variants
}

func TestStreams(t *testing.T) {
	t.Parallel()
	dsn := shared.Database(t)
	for name, cfg := range variants(t, dsn) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := func(t testing.TB) broker.Broker { return newBroker(t, cfg) }
			brokertest.RunBroker(t, make, brokertest.Capabilities{Unit: unit})
			t.Run("Control", func(t *testing.T) { brokertest.RunControl(t, make, brokertest.Capabilities{}) })
		})
	}
}

func TestMaps(t *testing.T) {
	t.Parallel()
	dsn := shared.Database(t)
	for name, cfg := range variants(t, dsn) {
		cfg.MapExpiryInterval = unit / 3
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := func(t testing.TB) broker.Broker { return newBroker(t, cfg) }
			maptest.Run(t, make, brokertest.Capabilities{Unit: unit})
			maptest.RunNodes(t, func(t testing.TB) broker.Broker { return newBroker(t, apart(t, cfg)) }, brokertest.Capabilities{Unit: unit})
		})
	}
}

// TestCachedMaps: PostgreSQL behind a cache of maps does the same. Streams pass through the cache, which the tests of mapcache show.
func TestCachedMaps(t *testing.T) {
	if testing.Short() {
		t.Skip("the cache is tested on brokers in memory")
	}
	t.Parallel()
	cfg := variants(t, shared.Database(t))["polling"]
	cfg.MapExpiryInterval = unit / 3
	cached := func(t testing.TB, cfg postgres.Config) broker.Broker {
		return mapcache.New(newBroker(t, cfg), mapcache.Config{})
	}
	caps := brokertest.Capabilities{Unit: unit}
	maptest.Run(t, func(t testing.TB) broker.Broker { return cached(t, cfg) }, caps)
	maptest.RunNodes(t, func(t testing.TB) broker.Broker { return cached(t, apart(t, cfg)) }, caps)
}

// apart gives the nodes of a test tables of their own, so that no node of another test has their entries expire.
func apart(t testing.TB, cfg postgres.Config) postgres.Config {
	cfg.TablePrefix = fmt.Sprintf("apart%x", crc32.ChecksumIEEE([]byte(t.Name())))
	return cfg
}

type controlled struct {
	broker.Broker
	controller *postgres.Controller
}

func (c *controlled) Describe() broker.Traits {
	t := c.Broker.Describe()
	t.Control = c.controller
	return t
}

func (c *controlled) Close(ctx context.Context) error {
	return errors.Join(c.controller.Close(ctx), c.Broker.Close(ctx))
}

// TestController: control messages of nodes with other brokers.
func TestController(t *testing.T) {
	t.Parallel()
	dsn := shared.Database(t)
	for name, cfg := range variants(t, dsn) {
		cfg.ControlNumShards = cfg.NumShards
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.RunControl(t, func(t testing.TB) broker.Broker {
				c, err := postgres.NewController(cfg)
				must(t, err)
				return &controlled{memory.New(memory.Config{}), c}
			}, brokertest.Capabilities{})
		})
	}
}
