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

// TestPlannedFailover: the Sentinels replace a primary that lives, by command and twice, while two nodes publish. Nothing that
// was acknowledged is lost, and no stream has another epoch.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.Options{Failover: true})
	cfg := redis.Config{
		Shards: []redis.Shard{{Addresses: s.Addresses(), SentinelMaster: s.Master}}, Logger: quiet, CanaryInterval: 100 * time.Millisecond,
	}
	nodes := []*redis.Broker{runBroker(t, cfg, newNote()), runBroker(t, cfg, newNote())}
	const channels = 10
	first, err := nodes[0].History(t.Context(), "ch0", broker.HistoryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		var acked sync.Map // by channel and data
		var answered atomic.Int64
		var publishers sync.WaitGroup
		stop := make(chan struct{})
		for n, b := range nodes {
			publishers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					ch, data := fmt.Sprint("ch", i%channels), fmt.Sprint(round, n, i)
					if _, err := b.Publish(context.Background(), ch, &channel.Publication{Data: []byte(data)}, keepAll); err == nil {
						acked.Store(ch+" "+data, true)
						answered.Add(1)
					}
				}
			})
		}
		flow := func() {
			t.Helper()
			before := answered.Load()
			wait.Until(t, "publications", func() bool { return answered.Load() > before+100 })
		}
		flow()
		old := s.Primary()
		s.Failover()
		flow()
		wait.Until(t, "nodes at the new primary", func() bool {
			return !strings.Contains(old.Do("CLIENT", "LIST", "TYPE", "pubsub"), ".shard.0") && awaited(nodes)
		})
		close(stop)
		publishers.Wait()
		for i := range channels {
			ch := fmt.Sprint("ch", i)
			h, err := nodes[i%2].History(t.Context(), ch, broker.HistoryFilter{Limit: -1})
			if err != nil {
				t.Fatal(err)
			}
			if ch == "ch0" && h.Top.Epoch != first.Top.Epoch {
				t.Errorf("%s has epoch %s, and had %s", ch, h.Top.Epoch, first.Top.Epoch)
			}
			for _, p := range h.Publications {
				acked.Delete(ch + " " + string(p.Data))
			}
		}
		lost := 0
		acked.Range(func(any, any) bool { lost++; return true })
		if lost > 0 {
			t.Errorf("round %d: %d of %d publications that were acknowledged are lost", round, lost, answered.Load())
		}
		if round == 0 { // the Sentinels make the old one a replica
			host, port, _ := strings.Cut(s.Primary().Addr(), ":")
			old.Do("REPLICAOF", host, port)
			wait.Success(t, "a replica", func() error {
				if info := old.Do("INFO", "replication"); !strings.Contains(info, "master_link_status:up") {
					return fmt.Errorf("of %s: %s", s.Primary().Addr(), info)
				}
				return nil
			})
		}
	}
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
