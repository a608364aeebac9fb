package mapcache_test

import (
	"fmt"
	"testing"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// filled returns a cache with a map of 10,000 entries, and the broker behind it.
func filled(tb testing.TB) (f *fixture, page func(broker.Broker)) {
	f = newFixture(tb, mapcache.Config{})
	for i := range 10_000 {
		f.set("ch", fmt.Sprintf("key-%05d", i), `{"price":1234}`)
	}
	f.read("ch")
	filter := channel.StateFilter{Limit: 100, Cursor: "key-05000"}
	return f, func(b broker.Broker) {
		s, err := b.Describe().Maps.State(f.ctx(), "ch", filter)
		if err != nil || len(s.Entries) != 100 {
			tb.Fatal(len(s.Entries), err)
		}
	}
}

// TestReadAllocations: a page costs its list, a change the copy that the cache keeps.
func TestReadAllocations(t *testing.T) {
	f, page := filled(t)
	page(f.cache)
	if allocs := testing.AllocsPerRun(100, func() { page(f.cache) }); allocs > 3 && !raceEnabled {
		t.Errorf("%v allocations per page, at most 3", allocs)
	}
	maps := f.cache.Describe().Maps
	if allocs := testing.AllocsPerRun(100, func() {
		if _, err := maps.State(f.ctx(), "ch", channel.StateFilter{}); err != nil {
			t.Fatal(err)
		}
	}); allocs > 1 && !raceEnabled {
		t.Errorf("%v allocations per count, at most 1", allocs)
	}
	if hits := f.metric("hits_total"); hits < 200 {
		t.Errorf("%v hits", hits)
	}
}

// BenchmarkPage reads pages of 100 entries.
func BenchmarkPage(b *testing.B) {
	f, page := filled(b)
	plain := broker.Broker(f.inner.Broker)
	for name, of := range map[string]broker.Broker{"cache": f.cache, "memory": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page(of)
			}
		})
	}
}

// BenchmarkChange sets keys through a cache that has the map, and without a cache.
func BenchmarkChange(b *testing.B) {
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprint("cached=", cached), func(b *testing.B) {
			f, _ := filled(b)
			of := f.cache.Describe().Maps
			if !cached {
				plain := memory.New(memory.Config{})
				f.must(plain.Run(nobody{}))
				defer plain.Close(f.ctx())
				f.must(plain.Subscribe(f.ctx(), "ch"))
				of = plain
			}
			data := []byte(`{"price":1234}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := of.Change(f.ctx(), "ch", &channel.Publication{Key: "key-05000", Data: data}, withStream); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
