package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// benchChannels is a prime near 100,000, so that steps through it are no pattern.
const benchChannels = 99_991

func benchNames() []string {
	names := make([]string, benchChannels)
	for i := range names {
		names[i] = fmt.Sprintf("news:channel_%d", i)
	}
	return names
}

func benchmarkPublish(b *testing.B, opts broker.PublishOptions) {
	br := newBroker(b, ignore)
	names := benchNames()
	if err := br.Subscribe(ctx, names...); err != nil {
		b.Fatal(err)
	}
	data := []byte(`{"a":1}`)
	for _, ch := range names { // streams exist
		_, _ = br.Publish(ctx, ch, &channel.Publication{Data: data}, opts)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i += 31_337; i >= benchChannels {
			i -= benchChannels
		}
		_, _ = br.Publish(ctx, names[i], &channel.Publication{Data: data}, opts)
	}
}

func BenchmarkPublish(b *testing.B) {
	b.Run("fleeting", func(b *testing.B) { benchmarkPublish(b, broker.PublishOptions{}) })
	for _, size := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("history=%d", size), func(b *testing.B) {
			benchmarkPublish(b, broker.PublishOptions{HistorySize: size, HistoryTTL: time.Hour, Delta: true})
		})
	}
}

// BenchmarkPublishReused leaves out what a new publication costs the allocator
// and the garbage collector: what remains is the broker's own work, most of it
// cache misses on 100,000 channels.
func BenchmarkPublishReused(b *testing.B) {
	for _, channels := range []int{1, benchChannels} {
		b.Run(fmt.Sprintf("channels=%d", channels), func(b *testing.B) {
			br := newBroker(b, ignore)
			names := benchNames()[:channels]
			if err := br.Subscribe(ctx, names...); err != nil {
				b.Fatal(err)
			}
			pub := &channel.Publication{Data: []byte(`{"a":1}`)}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 31_337) % channels
				pub.Time = 0
				_, _ = br.Publish(ctx, names[i], pub, broker.PublishOptions{})
			}
		})
	}
}

func BenchmarkPublishOneChannel(b *testing.B) {
	for _, size := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("history=%d", size), func(b *testing.B) {
			br := newBroker(b, ignore)
			opts := broker.PublishOptions{HistorySize: size, HistoryTTL: time.Hour}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = br.Publish(ctx, "a", &channel.Publication{}, opts)
			}
		})
	}
}

func BenchmarkNewStream(b *testing.B) {
	br := newBroker(b, ignore)
	opts := broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Hour}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		_, _ = br.Publish(ctx, fmt.Sprint(i), &channel.Publication{}, opts)
	}
}

func BenchmarkPresenceRenew(b *testing.B) {
	p := NewPresence(Config{})
	names := benchNames()
	info := &channel.ClientInfo{Client: "c", User: "u"}
	for _, ch := range names {
		_ = p.Add(ctx, ch, info)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i += 31_337; i >= benchChannels {
			i -= benchChannels
		}
		_ = p.Add(ctx, names[i], info)
	}
}

func BenchmarkPresenceStats(b *testing.B) {
	p := NewPresence(Config{})
	for i := range 10_000 {
		_ = p.Add(ctx, "a", &channel.ClientInfo{Client: fmt.Sprint(i), User: fmt.Sprint(i % 100)})
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.Stats(ctx, "a")
	}
}

// TestAllocations holds the budgets: the one allocation of a publish is the
// publication itself.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := newBroker(t, ignore)
	p := NewPresence(Config{})
	if err := b.Subscribe(ctx, "a", "b"); err != nil {
		t.Fatal(err)
	}
	info := &channel.ClientInfo{Client: "c", User: "u"}
	stored := broker.PublishOptions{HistorySize: 100, HistoryTTL: time.Hour}
	delta := stored
	delta.Delta = true
	for range 200 {
		publish(t, b, "b", stored)
	}
	batch := make([]broker.BatchItem, 100)
	pub := &channel.Publication{}
	for i := range batch {
		batch[i] = broker.BatchItem{Channel: "a", Pub: pub}
	}
	for _, test := range []struct {
		what   string
		budget float64
		run    func()
	}{
		{"publish without history", 1, func() { _, _ = b.Publish(ctx, "a", &channel.Publication{}, broker.PublishOptions{}) }},
		{"publish with history", 1, func() { _, _ = b.Publish(ctx, "b", &channel.Publication{}, stored) }},
		{"publish with delta, which is made against the one before", 2, func() { _, _ = b.Publish(ctx, "b", &channel.Publication{}, delta) }},
		{"publish a batch", 0, func() { b.PublishBatch(ctx, batch) }},
		{"read the position", 0, func() { _, _ = b.History(ctx, "b", broker.HistoryFilter{}) }},
		{"read the history", 2, func() { _, _ = b.History(ctx, "b", broker.HistoryFilter{Limit: -1}) }},
		{"renew presence", 0, func() { _ = p.Add(ctx, "a", info) }},
		{"presence stats", 0, func() { _, _ = p.Stats(ctx, "a") }},
	} {
		test.run()
		if got := testing.AllocsPerRun(100, test.run); got > test.budget {
			t.Errorf("%s: %v allocations, at most %v", test.what, got, test.budget)
		}
	}
}

// BenchmarkChange sets entries of one map.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			br := newBroker(b, ignore)
			if err := br.Subscribe(ctx, "map"); err != nil {
				b.Fatal(err)
			}
			keys := benchNames()[:min(n, benchChannels)]
			data := []byte(`{"a":1}`)
			opts := channel.MapOptions{KeyTTL: time.Hour, StreamSize: 100, StreamTTL: time.Hour, Delta: true}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 31_337) % len(keys)
				_, _ = br.Change(ctx, "map", &channel.Publication{Key: keys[i], Data: data}, opts)
			}
		})
	}
}

// BenchmarkState reads the first page of a map.
func BenchmarkState(b *testing.B) {
	br := newBroker(b, ignore)
	for _, key := range benchNames()[:10_000] {
		change(b, br, "map", &channel.Publication{Key: key}, channel.MapOptions{KeyTTL: time.Hour})
	}
	b.ReportAllocs()
	for b.Loop() {
		if s, err := br.State(ctx, "map", channel.StateFilter{Limit: 1000}); err != nil || len(s.Entries) != 1000 {
			b.Fatal(len(s.Entries), err)
		}
	}
}
