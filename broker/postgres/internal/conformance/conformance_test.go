// Package conformance runs brokertest and maptest on PostgreSQL. It has no code besides: its tests mostly wait for times to
// live, so many of them run at a time.
package conformance

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/postgres"
)

// unit of the tests' times to live: short, as they really pass, and long enough for a busy machine.
const unit = 600 * time.Millisecond

// ways to have rows delivered.
func ways(t *testing.T, dsn string) map[string]postgres.Config {
	return map[string]postgres.Config{
		"polling":       {DSN: dsn, BinaryData: true, PollInterval: 10 * time.Millisecond, TablePrefix: "poll"},
		"notifications": {DSN: dsn, BinaryData: true, UseNotify: true, TablePrefix: "notify", NumShards: 3, BatchSize: 7},
		"replica":       {DSN: dsn, BinaryData: true, PollInterval: 10 * time.Millisecond, TablePrefix: "copied", NumShards: 2, Replicas: []string{standby(t, dsn)}},
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	dsn := shared.Database(t)
	for name, cfg := range ways(t, dsn) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := func(t testing.TB) broker.Broker { return newBroker(t, cfg) }
			// What was published before a subscription may still arrive: a busy machine needs some time for it.
			brokertest.RunBroker(t, make, brokertest.Capabilities{Unit: unit, Settle: 300 * time.Millisecond})
			t.Run("Control", func(t *testing.T) { brokertest.RunControl(t, make, brokertest.Capabilities{}) })
		})
	}
}

func TestMaps(t *testing.T) {
	t.Parallel()
	dsn := shared.Database(t)
	for name, cfg := range ways(t, dsn) {
		cfg.MapExpiryInterval = unit / 6
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := func(t testing.TB) broker.Broker { return newBroker(t, cfg) }
			maptest.Run(t, make, brokertest.Capabilities{Unit: unit})
			maptest.RunNodes(t, make, brokertest.Capabilities{Unit: unit})
		})
	}
}

// TestCachedMaps: PostgreSQL behind a cache of maps does what PostgreSQL does.
func TestCachedMaps(t *testing.T) {
	t.Parallel()
	cfg := ways(t, shared.Database(t))["polling"]
	cfg.MapExpiryInterval = unit / 6
	make := func(t testing.TB) broker.Broker { return mapcache.New(newBroker(t, cfg), mapcache.Config{}) }
	together(t, func(t *testing.T) {
		maptest.Run(t, make, brokertest.Capabilities{Unit: unit})
	}, func(t *testing.T) {
		maptest.RunNodes(t, make, brokertest.Capabilities{Unit: unit})
		brokertest.RunBroker(t, make, brokertest.Capabilities{Unit: unit, Settle: 300 * time.Millisecond})
	})
}

// together runs suites at once.
func together(t *testing.T, suites ...func(t *testing.T)) {
	for i, suite := range suites {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			suite(t)
		})
	}
}

// controlled is a broker in memory beside a controller.
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
	for name, cfg := range ways(t, dsn) {
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
