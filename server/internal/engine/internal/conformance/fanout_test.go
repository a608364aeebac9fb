// Package conformance runs brokertest and maptest on PostgreSQL with a fan-out over Redis and NATS. It has no code besides: its
// tests mostly wait for times to live, so many of them run at a time.
package conformance

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// unit of the tests' times to live.
const unit = 300 * time.Millisecond

var muted = slog.New(slog.NewTextHandler(io.Discard, nil))

// carrier makes a broker that carries a fan-out. Each database has a prefix of its own.
type carrier func(t testing.TB, prefix string) broker.Broker

func overRedis(s *redistest.Server) carrier {
	return func(t testing.TB, prefix string) broker.Broker {
		t.Helper()
		e, err := redis.New(redis.Config{Shards: []redis.Shard{{Addresses: []string{s.Addr()}}}, Prefix: prefix, StartTimeout: wait.Limit, Logger: muted})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close(context.Background()) })
		return e.Broker()
	}
}

func overNATS(url string) carrier {
	return func(t testing.TB, prefix string) broker.Broker {
		t.Helper()
		b, err := nats.New(nats.Config{URL: url, Prefix: prefix, Logger: muted})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// onFanout returns what makes brokers on one database.
func onFanout(t *testing.T, fanout carrier) func(t testing.TB) broker.Broker {
	t.Helper()
	dsn := shared.Database(t)
	return func(t testing.TB) broker.Broker { return open(t, fanout, dsn, "") }
}

// apart is onFanout with tables of their own for the brokers of each test, so that no other broker has their entries expire.
func apart(t *testing.T, fanout carrier) func(t testing.TB) broker.Broker {
	t.Helper()
	dsn := shared.Database(t)
	return func(t testing.TB) broker.Broker {
		return open(t, fanout, dsn, fmt.Sprintf("apart%x", crc32.ChecksumIEEE([]byte(t.Name()))))
	}
}

func open(t testing.TB, fanout carrier, dsn, tables string) broker.Broker {
	t.Helper()
	b, err := postgres.New(postgres.Config{
		DSN: dsn, TablePrefix: tables, BinaryData: true, NumShards: 2, PoolSize: 8, PollInterval: 50 * time.Millisecond,
		MapExpiryInterval: unit / 3, Timeout: wait.Limit, Logger: muted, Fanout: postgres.FanoutOver(fanout(t, dsn[strings.LastIndex(dsn, "/")+1:])),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFanoutConformance: a broker on PostgreSQL does the same with a fan-out.
func TestFanoutConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("brokers are tested without a fan-out")
	}
	t.Parallel()
	for name, fanout := range map[string]carrier{
		"redis": overRedis(redistest.Standalone(t, redistest.Options{})),
		"nats":  overNATS(natstest.Start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caps := brokertest.Capabilities{Unit: unit}
			t.Run("streams", func(t *testing.T) { brokertest.RunBroker(t, onFanout(t, fanout), caps) })
			t.Run("maps", func(t *testing.T) {
				maptest.Run(t, onFanout(t, fanout), caps)
				maptest.RunNodes(t, apart(t, fanout), caps)
			})
		})
	}
}

// count is a broker's metric.
func count(b broker.Broker, name string) (n float64) {
	for _, m := range b.Describe().Metrics() {
		if m.Name == name {
			n = m.Value
		}
	}
	return n
}

// handler counts publications.
type handler struct{ came atomic.Int64 }

func (h *handler) HandlePublication(string, broker.PublicationEvent) { h.came.Add(1) }
func (h *handler) HandleJoin(string, *channel.ClientInfo)            {}
func (h *handler) HandleLeave(string, *channel.ClientInfo)           {}
func (h *handler) HandleLoss(func(string) bool)                      {}

// TestFanoutRows: rows come from the node that reads them.
func TestFanoutRows(t *testing.T) {
	t.Parallel()
	for name, fanout := range map[string]carrier{
		"redis": overRedis(redistest.Standalone(t, redistest.Options{})),
		"nats":  overNATS(natstest.Start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			make := onFanout(t, fanout)
			var nodes [3]broker.Broker
			var handlers [3]handler
			for i := range nodes {
				nodes[i] = make(t)
				if err := nodes[i].Run(&handlers[i]); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = nodes[i].Close(context.Background()) })
				if err := nodes[i].Subscribe(t.Context(), "ch"); err != nil {
					t.Fatal(err)
				}
			}
			sum := func(name string) (sum float64) {
				for _, n := range nodes {
					sum += count(n, name)
				}
				return sum
			}
			wait.Until(t, "all shards to be led", func() bool { return sum("fanout_shards_led") == 4 })
			published := int64(0)
			wait.Until(t, "rows to come from another node", func() bool {
				if _, err := nodes[0].Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, broker.PublishOptions{}); err != nil {
					t.Fatal(err)
				}
				published++
				for i := range handlers {
					wait.Until(t, "a publication", func() bool { return handlers[i].came.Load() == published })
				}
				return sum("fanout_rows_total") >= 20
			})
			if unsent := sum("fanout_unsent_total"); unsent > 0 {
				t.Errorf("%v messages were not sent", unsent)
			}
		})
	}
}

// TestFanoutFaults: what was acknowledged is delivered while Redis comes and goes.
func TestFanoutFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("brokers are tested with a fan-out that loses messages and is down")
	}
	t.Parallel()
	s := redistest.Standalone(t, redistest.Options{})
	brokertest.RunFaults(t, onFanout(t, overRedis(s)), nil, brokertest.Capabilities{Seed: 1, Fault: func(_ testing.TB, r *rand.Rand) {
		s.Kill()
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		s.Restart(r.IntN(2) == 0)
	}})
}
