package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var keepAll = broker.PublishOptions{HistorySize: 1_000_000, HistoryTTL: time.Hour}

// TestPlannedFailover: the Sentinels replace a primary that lives, by command, while two nodes publish. Nothing that was
// acknowledged is lost, nothing fails, and no stream has another epoch. A machine that is too busy to hear an announcement
// within 100 ms may lose something. Then the streams have another epoch, and the next failover is judged.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Failover: true})
	cfg := redis.Config{
		Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: quiet, CanaryInterval: 100 * time.Millisecond,
	}
	nodes := []*redis.Broker{runBroker(t, cfg, newNote()), runBroker(t, cfg, newNote())}
	const rounds = 5
	for round := range rounds {
		prefix := fmt.Sprint("round", round, "-")
		p := publishAlways(nodes, prefix)
		p.await(t)
		old := s.Primary()
		s.Failover()
		p.await(t)
		wait.Until(t, "nodes at the new primary", func() bool { return awaited(nodes) })
		p.end()
		lost, renewed := p.losses(t, nodes[1])
		if len(lost) == 0 && len(renewed) == 0 && p.failed.Load() == 0 {
			return
		}
		for ch := range lost {
			if !renewed[ch] {
				t.Errorf("%s lost publications that were acknowledged, and has the same epoch", ch)
			}
		}
		t.Logf("round %d: %d channels lost something, %d have another epoch, %d publications failed", round, len(lost), len(renewed), p.failed.Load())
		follow(t, old, s.Primary())
	}
	t.Errorf("%d planned failovers in a row lost something that was acknowledged", rounds)
}

// follow makes a server a replica of another, as the Sentinels would after some seconds.
func follow(t *testing.T, server, primary *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(primary.Addr(), ":")
	server.Do("REPLICAOF", host, port)
	wait.Success(t, "a replica", func() error {
		if info := server.Do("INFO", "replication"); !strings.Contains(info, "master_link_status:up") {
			return fmt.Errorf("of %s: %s", primary.Addr(), info)
		}
		return nil
	})
}

// publishing is publishers that go on until end.
type publishing struct {
	prefix           string // of channels
	answered, failed atomic.Int64
	publishers       sync.WaitGroup
	stop             chan struct{}

	mu     sync.Mutex
	acked  map[string]map[string]bool // by channel and data
	epochs map[string]string          // of the first publications
}

// publishAlways begins to publish on all nodes, to ten channels.
func publishAlways(nodes []*redis.Broker, prefix string) *publishing {
	p := &publishing{prefix: prefix, stop: make(chan struct{}), acked: make(map[string]map[string]bool), epochs: make(map[string]string)}
	for n, b := range nodes {
		p.publishers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-p.stop:
					return
				case <-time.After(time.Millisecond):
				}
				ch, data := fmt.Sprint(prefix, i%10), fmt.Sprint(n, " ", i)
				r, err := b.Publish(context.Background(), ch, &channel.Publication{Data: []byte(data)}, keepAll)
				if err != nil {
					p.failed.Add(1)
					continue
				}
				p.note(ch, data, r.Position.Epoch)
			}
		})
	}
	return p
}

func (p *publishing) note(ch, data, epoch string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acked[ch] == nil {
		p.acked[ch], p.epochs[ch] = make(map[string]bool), epoch
	}
	p.acked[ch][data] = true
	p.answered.Add(1)
}

// await waits for more publications.
func (p *publishing) await(t *testing.T) {
	t.Helper()
	before := p.answered.Load()
	wait.Until(t, "publications", func() bool { return p.answered.Load() > before+100 })
}

func (p *publishing) end() {
	close(p.stop)
	p.publishers.Wait()
}

// losses returns the channels that lack what was acknowledged, and those with another epoch than at first.
func (p *publishing) losses(t *testing.T, b *redis.Broker) (lost, renewed map[string]bool) {
	t.Helper()
	lost, renewed = make(map[string]bool), make(map[string]bool)
	for ch, acked := range p.acked {
		h, err := b.History(t.Context(), ch, broker.HistoryFilter{Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if h.Top.Epoch != p.epochs[ch] {
			renewed[ch] = true
		}
		for _, pub := range h.Publications {
			delete(acked, string(pub.Data))
		}
		if len(acked) > 0 {
			lost[ch] = true
		}
	}
	return lost, renewed
}

// awaited tells that all nodes are healthy.
func awaited(nodes []*redis.Broker) bool {
	for _, b := range nodes {
		if b.Health()[0].Err != nil {
			return false
		}
	}
	return true
}

// TestFailoverToLaggingReplica: the primary dies, and the replica lacks its last publications. Their stream gets another
// epoch.
func TestFailoverToLaggingReplica(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Failover: true})
	b := runBroker(t, redis.Config{
		Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: quiet, CanaryInterval: 100 * time.Millisecond,
	}, newNote())
	put := func() channel.StreamPosition {
		t.Helper()
		r, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("1")}, keepAll)
		if err != nil {
			t.Fatal(err)
		}
		return r.Position
	}
	put()
	old := s.Primary()
	replica := s.Servers[0]
	if replica == old {
		replica = s.Servers[1]
	}
	old.Do("WAIT", "1", "60000")
	replica.Stop()
	old.Do("CLIENT", "KILL", "TYPE", "replica") // else the kernel has for it what follows
	put()
	last := put()
	old.Kill()
	replica.Continue()
	s.Await(old)
	wait.Until(t, "a position in another epoch", func() bool {
		h, err := b.History(t.Context(), "ch", broker.HistoryFilter{})
		if err == nil && h.Top.Epoch == last.Epoch {
			t.Fatalf("the stream is at %+v behind %+v, of which the replica has 1", h.Top, last)
		}
		return err == nil
	})
}

// TestSentinelUserMayHearLess: the Sentinels permit one announcement alone. The node still hears that one, from each.
func TestSentinelUserMayHearLess(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{})
	for _, sentinel := range s.Sentinels {
		sentinel.Do("ACL", "SETUSER", "default", "resetchannels", "&+switch-master")
	}
	runBroker(t, redis.Config{Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: quiet}, newNote())
	for _, sentinel := range s.Sentinels {
		wait.Until(t, "a subscription", func() bool { return strings.Contains(sentinel.Do("CLIENT", "LIST", "TYPE", "pubsub"), " sub=1 ") })
	}
}
