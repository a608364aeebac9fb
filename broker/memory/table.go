package memory

import "maps"

// table is a map that gives memory back, which a Go map does not: it is copied when three quarters of its greatest size
// are gone.
type table[K comparable, V any] struct {
	m    map[K]V
	peak int
}

// smallTable is what a Go map holds without further allocations.
const smallTable = 8

func (t *table[K, V]) get(k K) V { return t.m[k] }

func (t *table[K, V]) set(k K, v V) {
	if t.m == nil {
		t.m = make(map[K]V)
	}
	t.m[k] = v
	t.peak = max(t.peak, len(t.m))
}

func (t *table[K, V]) delete(k K) {
	delete(t.m, k)
	if t.peak <= smallTable || len(t.m) > t.peak/4 {
		return
	}
	m := make(map[K]V, len(t.m))
	maps.Copy(m, t.m)
	t.m, t.peak = m, len(m)
}
