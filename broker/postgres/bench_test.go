package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres"
	"github.com/gyrohq/gyro/channel"
)

type counter struct{ n atomic.Int64 }

func (c *counter) HandlePublication(string, broker.PublicationEvent) { c.n.Add(1) }
func (c *counter) HandleJoin(string, *channel.ClientInfo)            {}
func (c *counter) HandleLeave(string, *channel.ClientInfo)           {}
func (c *counter) HandleLoss(func(string) bool)                      {}

var payload = []byte(`{"text":"` + strings.Repeat("x", 100) + `"}`)

// BenchmarkPublish publishes to 1,000 subscribed channels from 256 goroutines. An operation is a committed publication.
func BenchmarkPublish(b *testing.B) {
	for name, opts := range map[string]broker.PublishOptions{
		"passing": {}, "history": keep, "notify": keep, "idempotent": keep,
		"versions": {HistorySize: 10, HistoryTTL: time.Minute, VersionEpoch: "v"}, "delta": {HistorySize: 10, HistoryTTL: time.Minute, Delta: true},
	} {
		b.Run(name, func(b *testing.B) {
			var got counter
			engine := newDatabase(b).run(postgres.Config{UseNotify: name == "notify"}, &got)
			names := make([]string, 1000)
			for i := range names {
				names[i] = fmt.Sprint("bench:", i)
			}
			must(b, engine.Subscribe(b.Context(), names...))
			b.ResetTimer()
			var next atomic.Int64
			var all sync.WaitGroup
			for range 256 {
				all.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						opts, pub := opts, &channel.Publication{Data: payload}
						switch name {
						case "idempotent":
							opts.IdempotencyKey = fmt.Sprint(i)
						case "versions":
							pub.Version = uint64(i)
						}
						if _, err := engine.Publish(context.Background(), names[i%1000], pub, opts); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "publications/s")
			if name == "versions" {
				return // some may have been suppressed
			}
			for got.n.Load() < int64(b.N) {
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "delivered/s")
		})
	}
}

// BenchmarkBroadcast publishes to 10,000 channels. An operation is a committed broadcast.
func BenchmarkBroadcast(b *testing.B) {
	for name, opts := range map[string]broker.PublishOptions{"passing": {}, "history": keep} {
		b.Run(name, func(b *testing.B) {
			var got counter
			engine := newDatabase(b).run(postgres.Config{}, &got)
			batch := make([]broker.BatchItem, 10_000)
			for b.Loop() {
				pub := &channel.Publication{Data: payload}
				for i := range batch {
					batch[i] = broker.BatchItem{Channel: fmt.Sprint("user:", i), Pub: pub, Options: opts}
				}
				engine.PublishBatch(b.Context(), batch)
				for i := range batch {
					must(b, batch[i].Err)
				}
			}
		})
	}
}

// BenchmarkMap sets entries of 100 maps from 64 goroutines. An operation is a committed change.
func BenchmarkMap(b *testing.B) {
	var got counter
	engine := newDatabase(b).run(postgres.Config{}, &got)
	entries := engine.Describe().Maps
	b.ResetTimer()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				pub := &channel.Publication{Key: fmt.Sprint("k", i%1000), Data: payload}
				_, err := entries.Change(context.Background(), fmt.Sprint("map:", i%100), pub, channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute, KeyTTL: time.Hour})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

// BenchmarkFullMap sets entries of a map with 10,000, with and without a bound: old keys, new keys, which the bound
// refuses, and new keys after a removal, which are two changes.
func BenchmarkFullMap(b *testing.B) {
	const most = 10_000
	for kind, o := range map[string]channel.MapOptions{
		"stream": {StreamSize: 10, StreamTTL: time.Minute}, "ephemeral": {KeyTTL: time.Hour},
	} {
		engine := newDatabase(b).run(postgres.Config{}, &counter{})
		entries := engine.Describe().Maps
		change := func(key string, removed bool, o channel.MapOptions) broker.SuppressReason {
			r, err := entries.Change(context.Background(), "map", &channel.Publication{Key: key, Data: payload, Removed: removed}, o)
			must(b, err)
			return r.Suppressed
		}
		var all sync.WaitGroup
		for w := range 64 {
			all.Go(func() {
				for i := w; i < most; i += 64 {
					change(fmt.Sprint("k", i), false, o)
				}
			})
		}
		all.Wait()
		bound := o
		bound.MaxEntries = most
		for name, o := range map[string]channel.MapOptions{"free": o, "bound": bound} {
			b.Run(kind+"/"+name+"/there", func(b *testing.B) {
				for i := range b.N {
					change(fmt.Sprint("k", i%most), false, o)
				}
			})
			b.Run(kind+"/"+name+"/replace", func(b *testing.B) {
				for i := range b.N {
					key := fmt.Sprint("k", i%most)
					if change(key, true, o) != "" || change(key, false, o) != "" {
						b.Fatal("no change")
					}
				}
			})
		}
		b.Run(kind+"/bound/refused", func(b *testing.B) {
			for i := range b.N {
				if change(fmt.Sprint("new", i), false, bound) != channel.SuppressMapFull {
					b.Fatal("not full")
				}
			}
		})
	}
}

// BenchmarkHistory reads 10 publications from 16 goroutines.
func BenchmarkHistory(b *testing.B) {
	var got counter
	engine := newDatabase(b).run(postgres.Config{}, &got)
	for range 10 {
		_, err := engine.Publish(b.Context(), "ch", &channel.Publication{Data: payload}, keep)
		must(b, err)
	}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h, err := engine.History(context.Background(), "ch", broker.HistoryFilter{Limit: -1})
			if err != nil || len(h.Publications) != 10 {
				b.Errorf("%d publications, %v", len(h.Publications), err)
				return
			}
		}
	})
}
