package readmap

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is done, the map is as Go's own.
func TestMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int]
		want := make(map[string]int)
		// Few hashes, so that searches meet others' entries and tombstones; the key "" is one.
		hashes := rapid.Uint64Range(1, 64).Draw(t, "hashes")
		hash := func(key string) uint64 { return Hash(key) % hashes << 8 }
		key := rapid.Map(rapid.IntRange(0, 60), func(i int) string {
			if i == 0 {
				return ""
			}
			return fmt.Sprint(i)
		})
		for i := range rapid.IntRange(1, 400).Draw(t, "steps") {
			k := key.Draw(t, "key")
			if rapid.IntRange(0, 9).Draw(t, "kind") < 5 {
				m.Set(hash(k), k, i)
				want[k] = i
			} else {
				m.Delete(hash(k), k)
				delete(want, k)
			}
			k = key.Draw(t, "other")
			got, ok := m.Get(hash(k), k)
			if value, known := want[k]; got != value || ok != known {
				t.Fatalf("step %d: %q is %d %v, want %d %v", i, k, got, ok, value, known)
			}
			if got := maps.Collect(m.All); m.Len() != len(want) || !maps.Equal(got, want) {
				t.Fatalf("step %d: %d entries %v, want %v", i, m.Len(), got, want)
			}
			if table := m.table.Load(); table != nil && m.used*4 > len(table.slots)*3 {
				t.Fatalf("%d of %d slots are used", m.used, len(table.slots))
			}
		}
	})
}

// The table shrinks with the map, and goes with its last entry.
func TestShrink(t *testing.T) {
	var m Map[int]
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint(i)
		m.Set(Hash(names[i]), names[i], i)
	}
	for i, name := range names {
		m.Delete(Hash(name), name)
		left := len(names) - 1 - i
		if table := m.table.Load(); left == 0 && table != nil || left > 0 && len(table.slots) > max(minSlots, 8*left) {
			t.Fatalf("%d slots for %d entries", len(table.slots), left)
		}
	}
}

// Readers find what is there all the time, whoever comes and goes meanwhile, and
// nothing that never was.
func TestReadersBeside(t *testing.T) {
	var m Map[string]
	for i := range 100 {
		key := fmt.Sprint("stays", i)
		m.Set(Hash(key), key, key)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			for i := r; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := fmt.Sprint("stays", i%100)
				if got, ok := m.Get(Hash(key), key); !ok || got != key {
					t.Errorf("%q: %q %v", key, got, ok)
					return
				}
				key = fmt.Sprint("comes", i%1000)
				if got, ok := m.Get(Hash(key), key); ok && got != key {
					t.Errorf("%q: %q", key, got)
					return
				}
			}
		})
	}
	for i := range 20_000 {
		key := fmt.Sprint("comes", i%1000)
		if i/1000%2 == 0 {
			m.Set(Hash(key), key, key)
		} else {
			m.Delete(Hash(key), key)
		}
	}
	close(done)
	readers.Wait()
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		names := make([]string, n)
		var m Map[*int]
		plain := make(map[string]*int)
		for i := range names {
			names[i] = fmt.Sprint("centrifugo.client.channel:", i)
			m.Set(Hash(names[i]), names[i], new(int))
			plain[names[i]] = new(int)
		}
		b.Run(fmt.Sprint("readmap/", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				name := names[i%n]
				if v, _ := m.Get(Hash(name), name); v == nil {
					b.Fatal(name)
				}
			}
		})
		b.Run(fmt.Sprint("locked/", n), func(b *testing.B) {
			var mu sync.RWMutex
			for i := 0; b.Loop(); i++ {
				mu.RLock()
				v := plain[names[i%n]]
				mu.RUnlock()
				if v == nil {
					b.Fatal(names[i%n])
				}
			}
		})
	}
}
