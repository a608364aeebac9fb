package redis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest/follower"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// The data of a server go back while its connections stay: publications that were
// acknowledged are gone, and their offsets are given out again. Whatever the case, each
// of them is delivered, or its subscribers are told before they take a later one for
// continuous.

// site is some nodes on one Redis, each with a subscriber that keeps the books.
type site struct {
	t         *testing.T
	nodes     []*redis.Broker
	followers []*follower.Follower
	opts      broker.PublishOptions
	number    int
	accepted  []int
}

func newSite(t *testing.T, cfg redis.Config, nodes int, opts broker.PublishOptions) *site {
	t.Helper()
	cfg.Logger = quiet
	cfg.CanaryInterval, cfg.CanaryTimeout = 100*time.Millisecond, 5*time.Second
	cfg.StartTimeout = wait.Limit
	s := &site{t: t, opts: opts}
	for range nodes {
		f := follower.New("ch")
		b := runBroker(t, cfg, f)
		f.Start(t, b)
		s.nodes, s.followers = append(s.nodes, b), append(s.followers, f)
	}
	return s
}

// publish publishes n numbers on a node, each until it is accepted or refused for good.
func (s *site) publish(b *redis.Broker, n int) {
	s.t.Helper()
	for range n {
		wait.Until(s.t, "a publication is accepted", func() bool { return s.try(b) })
	}
}

// try publishes one number.
func (s *site) try(b *redis.Broker) bool {
	s.number++
	_, err := b.Publish(s.t.Context(), "ch", follower.Number(s.number), s.opts)
	if err == nil {
		s.accepted = append(s.accepted, s.number)
	}
	return err == nil
}

// top returns the top of the stream as a node reads it, after it has verified its streams if the
// server may have lost something.
func (s *site) top(b *redis.Broker) (top channel.StreamPosition) {
	s.t.Helper()
	wait.Until(s.t, "the history is read", func() bool {
		h, err := b.History(s.t.Context(), "ch", broker.HistoryFilter{})
		top = h.Top
		return err == nil
	})
	return top
}

// verify looks at the books of all followers, all of which have to have been told.
func (s *site) verify() {
	s.t.Helper()
	missing := make([]int, len(s.followers))
	for i, f := range s.followers {
		missing[i] = f.Verify(s.t, s.accepted)
		if f.Told() == 0 {
			s.t.Errorf("subscriber %d was not told", i)
		}
	}
	s.t.Logf("%d accepted; missing, and told: %v", len(s.accepted), missing)
}

var debug = redistest.Options{Args: []string{"--enable-debug-command", "yes"}}

// reloadable starts a server that can go back to what it saved.
func reloadable(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	if strings.Contains(server.Do("CONFIG", "GET", "enable-debug-command"), "enable-debug-command") {
		server = redistest.Standalone(t, debug)
	}
	return server
}

// TestDataReloaded is the smallest case.
func TestDataReloaded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lists     bool
		delta     bool
		size      int
		publisher int // the node that publishes after the reload; that before is 0
		again     int
	}{
		"fewer":               {size: 100, again: 5},
		"as many":             {size: 100, again: 10},
		"more":                {size: 100, again: 15},
		"more, delta":         {size: 100, again: 15, delta: true},
		"more, lists":         {size: 100, again: 15, lists: true},
		"more, lists, delta":  {size: 100, again: 15, lists: true, delta: true},
		"more, trimmed":       {size: 3, again: 15},
		"other node":          {size: 100, again: 15, publisher: 1},
		"other node, trimmed": {size: 3, again: 15, publisher: 1},
		"new node":            {size: 100, again: 15, publisher: 2},
		"new node, trimmed":   {size: 3, again: 15, publisher: 2},
		"new node, delta":     {size: 100, again: 15, publisher: 2, delta: true},
		"nobody publishes":    {size: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := reloadable(t)
			cfg := redis.Config{Shards: []redis.Shard{standalone(server)}, HistoryUseLists: test.lists}
			s := newSite(t, cfg, 2, broker.PublishOptions{HistorySize: test.size, HistoryTTL: time.Minute, Delta: test.delta})
			s.nodes = append(s.nodes, runBroker(t, cfg, newNote())) // knows nothing and has no subscriber
			s.publish(s.nodes[0], 10)
			server.Do("SAVE")
			s.publish(s.nodes[0], 10)
			for _, f := range s.followers {
				f.Verify(t, s.accepted) // all have got them
			}
			if test.again == 0 {
				awaitMarks(t, server, 2)
			}
			server.Do("DEBUG", "RELOAD", "NOSAVE")
			s.publish(s.nodes[test.publisher], test.again)
			// Nobody asks: what there is, the nodes find out.
			wait.Until(t, "both followers are told", func() bool { return s.followers[0].Told() > 0 && s.followers[1].Told() > 0 })
			s.publish(s.nodes[0], 3)
			s.verify()
		})
	}
}

// awaitMarks waits until all nodes have written a mark that belongs to what is there now.
func awaitMarks(t *testing.T, server *redistest.Server, nodes int) {
	t.Helper()
	var keys []string
	wait.Until(t, "each node has a mark", func() bool {
		keys = strings.Fields(server.Do("KEYS", "*.mark.*"))
		return len(keys) == nodes
	})
	for _, key := range keys {
		before := server.Do("GET", key)
		wait.Until(t, "a mark changes", func() bool { return server.Do("GET", key) != before })
	}
}

// TestOfflineClient: a client that was not connected comes back with a position that the
// stream had, and that it has again with other publications.
func TestOfflineClient(t *testing.T) {
	t.Parallel()
	for name, publisher := range map[string]int{"publisher": 0, "subscriber": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := reloadable(t)
			s := newSite(t, redis.Config{Shards: []redis.Shard{standalone(server)}}, 2, keep)
			s.publish(s.nodes[0], 5)
			server.Do("SAVE")
			s.publish(s.nodes[0], 5)
			for _, f := range s.followers {
				f.Verify(t, s.accepted)
			}
			before, err := s.nodes[1].History(t.Context(), "ch", broker.HistoryFilter{})
			if err != nil {
				t.Fatal(err)
			}
			server.Do("DEBUG", "RELOAD", "NOSAVE")
			s.publish(s.nodes[publisher], 7)
			wait.Until(t, "the follower is told", func() bool { return s.followers[0].Told() > 0 })
			for i, b := range s.nodes {
				after, err := b.History(t.Context(), "ch", broker.HistoryFilter{})
				if err != nil || after.Top.Epoch == before.Top.Epoch || after.Top.Offset != 12 {
					t.Errorf("node %d: %+v, %v behind %+v", i, after.Top, err, before.Top)
				}
			}
		})
	}
}

// load publishes on all nodes, one after the other, until it is stopped.
func (s *site) load() (stop func()) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(s.t.Context())
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			s.try(s.nodes[i%len(s.nodes)])
			time.Sleep(time.Millisecond) // the rate of the load
		}
	})
	return func() { cancel(); running.Wait() }
}

// accepts waits until n more publications are accepted under load.
func accepts(t *testing.T, count *atomic.Int64, n int64) {
	t.Helper()
	before := count.Load()
	wait.Until(t, fmt.Sprintf("%d more publications are accepted", n), func() bool { return count.Load() >= before+n })
}

// counted counts what a subscriber of its own gets, so that a test can wait for it.
func counted(t *testing.T, cfg redis.Config) *atomic.Int64 {
	t.Helper()
	c := newCounter()
	c.left.Store(1 << 40)
	var count atomic.Int64
	b := runBroker(t, cfg, &tally{counter: c, count: &count})
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	return &count
}

type tally struct {
	*counter
	count *atomic.Int64
}

func (c *tally) HandlePublication(string, broker.PublicationEvent) { c.count.Add(1) }

// TestDataReloadedUnderLoad: the same while three nodes publish.
func TestDataReloadedUnderLoad(t *testing.T) {
	t.Parallel()
	server := reloadable(t)
	cfg := redis.Config{Shards: []redis.Shard{standalone(server)}}
	s := newSite(t, cfg, 3, broker.PublishOptions{HistorySize: 1000, HistoryTTL: time.Minute, Delta: true})
	count := counted(t, cfg)
	stop := s.load()
	accepts(t, count, 100)
	server.Do("SAVE")
	for range 3 {
		accepts(t, count, 200)
		server.Do("DEBUG", "RELOAD", "NOSAVE") // to the same data each time
	}
	accepts(t, count, 200)
	stop()
	s.verify()
}

// TestStaleReplica makes the server a replica of a stale copy for a moment.
func TestStaleReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("replication takes long")
	}
	t.Parallel()
	server, stale := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	for _, each := range []*redistest.Server{server, stale} {
		each.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	}
	cfg := redis.Config{Shards: []redis.Shard{standalone(server)}}
	s := newSite(t, cfg, 3, broker.PublishOptions{HistorySize: 1000, HistoryTTL: time.Minute, Delta: true})
	count := counted(t, cfg)
	stop := s.load()
	accepts(t, count, 100)
	replicate(t, stale, server)
	stale.Do("REPLICAOF", "NO", "ONE")
	accepts(t, count, 500)
	replicate(t, server, stale)
	server.Do("REPLICAOF", "NO", "ONE")
	accepts(t, count, 700) // connections for PUB/SUB may have to come back first
	stop()
	s.verify()
}

// replicate makes a server a replica of another, with its data.
func replicate(t *testing.T, replica, of *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(of.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica.Do("REPLICAOF", host, port)
	wait.Until(t, "the replica has the data", func() bool { return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up") })
}

// TestSlotTakenBack: the replica of a Cluster's node takes over, and the node takes its
// slots back with the data that it had.
func TestSlotTakenBack(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	slot := c.Slot("{ch}")
	first := c.Nodes[c.Owner(slot)]
	second := c.AddReplica(first)
	shard := redis.Shard{Addresses: c.Addresses(), Mode: redis.Cluster, IOTimeout: time.Second}
	s := newSite(t, redis.Config{Shards: []redis.Shard{shard}}, 3,
		broker.PublishOptions{HistorySize: 5000, HistoryTTL: time.Minute, Delta: true})
	for i, b := range s.nodes {
		s.publish(b, 30+i)
	}
	first.Stop()
	second.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	for i, b := range s.nodes {
		s.publish(b, 30+i)
	}
	second.Stop()
	first.Continue()
	// It has heard of the other before it lets itself be promoted again.
	wait.Until(t, "the first server is a replica", func() bool { return strings.Contains(first.Do("ROLE"), "slave") })
	first.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	for i, b := range s.nodes {
		s.publish(b, 60+i)
	}
	second.Continue()
	s.verify()
}

// TestRepeatedRestart: the server comes back with the same older data again and again, in
// which the stream has an epoch that it had before.
func TestRepeatedRestart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	cfg := redis.Config{Shards: []redis.Shard{standalone(server)}}
	s := newSite(t, cfg, 2, broker.PublishOptions{HistorySize: 1000, HistoryTTL: time.Minute})
	s.publish(s.nodes[0], 10)
	server.Do("SAVE")
	epochs := map[string]bool{}
	for range 3 {
		s.publish(s.nodes[0], 10)
		server.Restart(false)
		var result broker.PublishResult
		wait.Until(t, "a publication is accepted", func() (ok bool) {
			s.number++
			var err error
			result, err = s.nodes[0].Publish(t.Context(), "ch", follower.Number(s.number), s.opts)
			if err == nil {
				s.accepted = append(s.accepted, s.number)
			}
			return err == nil
		})
		if epochs[result.Position.Epoch] {
			t.Errorf("epoch %s again", result.Position.Epoch)
		}
		epochs[result.Position.Epoch] = true
	}
	s.publish(s.nodes[1], 30)
	// A node that verifies late may renew the epoch once more. It tells its own subscribers. Those of
	// others hear of it by the next publication, or by the check of positions, which is the node's.
	for _, b := range s.nodes {
		s.top(b)
	}
	s.publish(s.nodes[1], 1)
	s.verify()
}

// TestEarlierEpoch: the server comes back twice with data in which the stream has its first epoch,
// and nobody publishes before the node looks. Offsets behind those data were given out in that epoch.
func TestEarlierEpoch(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := newSite(t, redis.Config{Shards: []redis.Shard{standalone(server)}}, 1, keep)
	epochs := map[string]bool{}
	look := func() {
		t.Helper()
		epoch := s.top(s.nodes[0]).Epoch
		if epochs[epoch] {
			t.Errorf("epoch %s again", epoch)
		}
		epochs[epoch] = true
	}
	s.publish(s.nodes[0], 5)
	server.Do("SAVE")
	s.publish(s.nodes[0], 5)
	look()
	for range 4 {
		server.Restart(false)
		look()
		s.publish(s.nodes[0], 2)
	}
	s.verify()
}

// TestReloadedAgain: the same older data come back again and again, and the node publishes before it
// looks. The stream must not have its first epoch a second time.
func TestReloadedAgain(t *testing.T) {
	t.Parallel()
	server := reloadable(t)
	s := newSite(t, redis.Config{Shards: []redis.Shard{standalone(server)}}, 1, keep)
	s.publish(s.nodes[0], 5)
	server.Do("SAVE")
	epochs := map[string]bool{s.top(s.nodes[0]).Epoch: true}
	for range 4 {
		s.publish(s.nodes[0], 5)
		server.Do("DEBUG", "RELOAD", "NOSAVE")
		s.publish(s.nodes[0], 1)
		epoch := s.top(s.nodes[0]).Epoch
		if epochs[epoch] {
			t.Errorf("epoch %s again", epoch)
		}
		epochs[epoch] = true
	}
	s.verify()
}

// TestNobodyTold: marks that go on, nodes that come and go, and slots that migrate with
// their keys, are no reason to tell anybody.
func TestNobodyTold(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	cfg := redis.Config{Shards: []redis.Shard{{Addresses: c.Addresses(), Mode: redis.Cluster}}}
	s := newSite(t, cfg, 2, broker.PublishOptions{HistorySize: 100, HistoryTTL: time.Minute})
	s.publish(s.nodes[0], 20)
	before := make([]channel.StreamPosition, 2)
	for i := range before {
		s.publish(s.nodes[i], 20)
		h, err := s.nodes[0].History(t.Context(), "ch", broker.HistoryFilter{})
		if err != nil {
			t.Fatal(err)
		}
		before[i] = h.Top
		// In a Cluster, what the new owner of the slot publishes may overtake what the old one did, and
		// whoever gets that has to be told.
		for _, f := range s.followers {
			f.Verify(t, s.accepted)
		}
		slot := c.Slot("{ch}")
		c.MoveSlot(slot, (c.Owner(slot)+1)%len(c.Nodes))
	}
	s.publish(s.nodes[1], 20)
	for i, f := range s.followers {
		if missing := f.Verify(t, s.accepted); missing > 0 || f.Told() > 0 {
			t.Errorf("subscriber %d was told %d times and misses %d", i, f.Told(), missing)
		}
	}
	if before[0].Epoch != before[1].Epoch {
		t.Errorf("%+v, %+v", before[0], before[1])
	}
	wait.Until(t, "a mark", func() bool { return fmt.Sprint(c.Nodes[0].Do("KEYS", "*.mark.*")) != "" })
}
