package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// bus is a fan-out within the process. It can be down, and lose messages.
type bus struct {
	mu      sync.RWMutex
	members []*member
	down    atomic.Bool
	lose    atomic.Pointer[func() bool]
}

type member struct {
	*bus
	receive func(topic string, message []byte)
	topics  []string
	closed  atomic.Bool
}

func (b *bus) join() postgres.Fanout { return &member{bus: b} }

func (m *member) Run(topics []string, receive func(string, []byte), _ func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topics, m.receive = topics, receive
	m.members = append(m.members, m)
	return nil
}

func (m *member) Publish(_ context.Context, topic string, message []byte) error {
	if m.down.Load() {
		return errors.New("the bus is down")
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, to := range m.members {
		if lose := m.lose.Load(); lose != nil && (*lose)() {
			continue
		}
		if !to.closed.Load() && slices.Contains(to.topics, topic) {
			to.receive(topic, message)
		}
	}
	return nil
}

func (m *member) Down() bool { return m.down.Load() }

func (m *member) Close(context.Context) error {
	m.closed.Store(true)
	return nil
}

func metric(b *postgres.Broker, name string) float64 {
	for _, m := range b.Describe().Metrics() {
		if m.Name == name {
			return m.Value
		}
	}
	return -1
}

type cluster struct {
	*database
	bus   bus
	nodes []*postgres.Broker
	got   []events
}

func newCluster(t *testing.T, n int, cfg postgres.Config) *cluster {
	c := &cluster{database: newDatabase(t)}
	for range n {
		c.add(cfg)
	}
	wait.Until(t, "all shards to be led", func() bool { return c.led() == 4 })
	return c
}

func (c *cluster) add(cfg postgres.Config) {
	c.tb.Helper()
	cfg.NumShards, cfg.Fanout = 2, c.bus.join()
	got := newEvents()
	c.nodes, c.got = append(c.nodes, c.run(cfg, got)), append(c.got, got)
}

func (c *cluster) led() (sum float64) {
	for _, n := range c.nodes {
		sum += max(0, metric(n, "fanout_shards_led"))
	}
	return sum
}

// publish returns what has to come of publications by SQL and by nodes.
func (c *cluster) publish(from, to int) (want map[string][]string) {
	c.tb.Helper()
	want = make(map[string][]string)
	for i := from; i <= to; i++ {
		for _, ch := range []string{"a", "b", "m"} {
			switch {
			case ch == "m":
				change(c.tb, c.nodes[i%len(c.nodes)], ch, fmt.Sprint(i), fmt.Sprint(i))
			case i%3 == 0:
				c.exec(fmt.Sprintf("SELECT cf_stream_publish('%s', '%d')", ch, i))
			default:
				publish(c.tb, c.nodes[i%len(c.nodes)], ch, fmt.Sprint(i))
			}
			want[ch] = append(want[ch], fmt.Sprintf("%s=%d@%d", ch, i, i))
		}
	}
	return want
}

func (c *cluster) expect(want map[string][]string) {
	c.tb.Helper()
	for node, got := range c.got {
		all := make(map[string][]string)
		for range len(want["a"]) + len(want["b"]) + len(want["m"]) {
			e := got.next(c.tb)
			all[e.ch] = append(all[e.ch], e.String())
		}
		for ch := range want {
			if !slices.Equal(all[ch], want[ch]) {
				c.tb.Fatalf("node %d: %s has %v, want %v", node, ch, all[ch], want[ch])
			}
		}
	}
}

func (c *cluster) subscribe() {
	c.tb.Helper()
	for _, n := range c.nodes {
		must(c.tb, n.Subscribe(c.tb.Context(), "a", "b", "m"))
	}
}

// TestFanout: one node reads, all deliver.
func TestFanout(t *testing.T) {
	c := newCluster(t, 3, postgres.Config{PollInterval: 10 * time.Millisecond, FanoutInterval: time.Hour})
	c.subscribe()
	c.expect(c.publish(1, 3)) // each worker has read once, and some have read a few of these rows
	c.expect(c.publish(4, 23))
	var read, received, holes float64
	wait.Until(t, "all rows to be counted", func() bool {
		read, received, holes = 0, 0, 0
		for _, n := range c.nodes {
			read, received, holes = read+metric(n, "rows_read_total"), received+metric(n, "fanout_rows_total"), holes+metric(n, "fanout_holes_total")
		}
		return read+received == 3*3*23
	})
	if received < 2*3*20 || holes > 0 {
		t.Errorf("%v rows were read, %v received, and %v messages missing", read, received, holes)
	}
}

// TestFanoutHoles: what the fan-out loses, nodes read, also if it is the last message.
func TestFanoutHoles(t *testing.T) {
	c := newCluster(t, 2, postgres.Config{PollInterval: 5 * time.Millisecond, FanoutInterval: 300 * time.Millisecond})
	c.subscribe()
	lose := func() bool { return rand.IntN(3) == 0 }
	c.bus.lose.Store(&lose)
	c.expect(c.publish(1, 30))
	always := func() bool { return true }
	c.bus.lose.Store(&always)
	c.expect(c.publish(31, 32))
}

// TestFanoutDown: while the fan-out is down, each node reads for itself.
func TestFanoutDown(t *testing.T) {
	c := newCluster(t, 2, postgres.Config{PollInterval: 10 * time.Millisecond, FanoutInterval: time.Hour})
	c.subscribe()
	c.expect(c.publish(1, 3))
	c.bus.down.Store(true)
	c.expect(c.publish(4, 8))
	c.bus.down.Store(false)
	c.expect(c.publish(9, 12))
	var unsent float64
	for _, n := range c.nodes {
		unsent += metric(n, "fanout_unsent_total")
	}
	if unsent == 0 {
		t.Error("no message was lost while the bus was down")
	}
}

// TestFanoutLeader: when the leader ends, or loses the connection that has its locks, nothing is lost, and another one leads.
func TestFanoutLeader(t *testing.T) {
	c := newCluster(t, 2, postgres.Config{PollInterval: 10 * time.Millisecond, FanoutInterval: time.Hour})
	c.subscribe()
	c.expect(c.publish(1, 3))
	c.exec("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
	c.expect(c.publish(4, 9))
	wait.Until(t, "all shards to be led again", func() bool { return c.led() == 4 })
	leader := 0
	if metric(c.nodes[1], "fanout_shards_led") > 0 {
		leader = 1
	}
	must(t, c.nodes[leader].Close(context.Background()))
	c.nodes, c.got = slices.Delete(c.nodes, leader, leader+1), slices.Delete(c.got, leader, leader+1)
	c.expect(c.publish(10, 13))
	wait.Until(t, "the other node to lead", func() bool { return c.led() == 4 })
	c.add(postgres.Config{PollInterval: 10 * time.Millisecond, FanoutInterval: time.Hour})
	c.subscribe()
	c.expect(c.publish(14, 16))
}

// TestFanoutLarge: rows that are too large for a message come as well, and those behind them.
func TestFanoutLarge(t *testing.T) {
	c := newCluster(t, 2, postgres.Config{PollInterval: 10 * time.Millisecond, FanoutInterval: 200 * time.Millisecond, BinaryData: true})
	c.subscribe()
	for i := range 6 {
		data := make([]byte, 1+(i%2)*(1<<20))
		_, err := c.nodes[0].Publish(t.Context(), "a", &channel.Publication{Data: data}, keep)
		must(t, err)
	}
	for _, got := range c.got {
		for i := range 6 {
			if e := got.next(t); e.Pub.Offset != uint64(i+1) || len(e.Pub.Data) != 1+(i%2)*(1<<20) {
				t.Errorf("offset %d has %d bytes", e.Pub.Offset, len(e.Pub.Data))
			}
		}
	}
}
