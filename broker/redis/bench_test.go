package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
)

// counter is an event handler that counts, and tells when it has counted enough.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

func newCounter() *counter { return &counter{done: make(chan struct{}, 1)} }

func (c *counter) HandlePublication(string, broker.PublicationEvent) {
	if c.left.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}
func (c *counter) HandleJoin(string, *channel.ClientInfo)  {}
func (c *counter) HandleLeave(string, *channel.ClientInfo) {}
func (c *counter) HandleLoss(func(string) bool)            {}

func runBroker(t testing.TB, cfg redis.Config, h broker.EventHandler) *redis.Broker {
	t.Helper()
	b := newBroker(t, cfg)
	if err := b.Run(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	return b
}

// BenchmarkPositions reads the positions of 64 streams that the node is subscribed to.
func BenchmarkPositions(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	r := runBroker(b, redis.Config{Shards: []redis.Shard{standalone(server)}}, newCounter())
	channels := make([]string, 64)
	for i := range channels {
		channels[i] = fmt.Sprint("channel", i)
	}
	if err := r.Subscribe(b.Context(), channels...); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, result := range r.Describe().Positions(b.Context(), channels, 0) {
			if result.Err != nil {
				b.Fatal(result.Err)
			}
		}
	}
}

// BenchmarkBatch publishes batches: a broadcast of one publication, others of
// their own, and with history. The time is until Redis has answered.
func BenchmarkBatch(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	for _, test := range []struct {
		name string
		size int
		opts broker.PublishOptions
	}{
		{"broadcast-100000", 100_000, broker.PublishOptions{}},
		{"batch-50000", 50_000, broker.PublishOptions{}},
		{"history-50000", 50_000, broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}},
	} {
		b.Run(test.name, func(b *testing.B) {
			broadcast := test.size == 100_000
			r := runBroker(b, redis.Config{Shards: []redis.Shard{standalone(server)}, Prefix: test.name}, newCounter())
			data := make([]byte, 128)
			batch := make([]broker.BatchItem, test.size)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				shared := &channel.Publication{Data: data}
				for i := range batch {
					batch[i] = broker.BatchItem{Channel: fmt.Sprint("channel", i), Pub: shared, Options: test.opts}
					if !broadcast {
						batch[i].Pub = &channel.Publication{Data: data}
					}
				}
				b.StartTimer()
				r.PublishBatch(b.Context(), batch)
				b.StopTimer()
				for i := range batch {
					if batch[i].Err != nil {
						b.Fatal(batch[i].Err)
					}
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkPublish has 64 goroutines publish one by one.
func BenchmarkPublish(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	for name, opts := range map[string]broker.PublishOptions{
		"plain": {}, "history": {HistorySize: 10, HistoryTTL: time.Minute},
	} {
		b.Run(name, func(b *testing.B) {
			r := runBroker(b, redis.Config{Shards: []redis.Shard{standalone(server)}}, newCounter())
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				data := make([]byte, 128)
				for pb.Next() {
					if _, err := r.Publish(context.Background(), "channel", &channel.Publication{Data: data}, opts); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkReceive is the way of a publication from the socket to the handler.
func BenchmarkReceive(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	cfg := redis.Config{Shards: []redis.Shard{standalone(server)}}
	count := newCounter()
	receiver, sender := runBroker(b, cfg, count), runBroker(b, cfg, newCounter())
	if err := receiver.Subscribe(b.Context(), "channel"); err != nil {
		b.Fatal(err)
	}
	batch := make([]broker.BatchItem, 1000)
	pub := &channel.Publication{Data: make([]byte, 128)}
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: "channel", Pub: pub}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(batch) {
		count.left.Store(int64(len(batch)))
		sender.PublishBatch(b.Context(), batch)
		<-count.done
	}
}

// BenchmarkMapPage reads pages of 100 entries of a map, from Redis and from the memory of the node. Beside it, a key is
// set a hundred times a second.
func BenchmarkMapPage(b *testing.B) {
	server := redistest.Standalone(b, redistest.Options{})
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprint("cached=", cached), func(b *testing.B) {
			var r broker.Broker = newBroker(b, redis.Config{Shards: []redis.Shard{standalone(server)}})
			if cached {
				r = mapcache.New(r, mapcache.Config{})
			}
			if err := r.Run(newCounter()); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { r.Close(context.Background()) })
			if err := r.Subscribe(b.Context(), "ch"); err != nil {
				b.Fatal(err)
			}
			maps := r.Describe().Maps
			set := func(i int) {
				o := channel.MapOptions{StreamSize: 100, StreamTTL: time.Minute}
				if _, err := maps.Change(b.Context(), "ch", &channel.Publication{Key: fmt.Sprintf("key-%05d", i), Data: make([]byte, 64)}, o); err != nil {
					b.Error(err)
				}
			}
			for i := range 1000 {
				set(i)
			}
			over, changes := make(chan struct{}), sync.WaitGroup{}
			changes.Go(func() {
				for ticker := time.NewTicker(10 * time.Millisecond); ; {
					select {
					case <-ticker.C:
						set(500)
					case <-over:
						ticker.Stop()
						return
					}
				}
			})
			b.ReportAllocs()
			for b.Loop() {
				if s, err := maps.State(b.Context(), "ch", channel.StateFilter{Limit: 100}); err != nil || len(s.Entries) != 100 {
					b.Fatal(len(s.Entries), err)
				}
			}
			close(over)
			changes.Wait()
		})
	}
}
