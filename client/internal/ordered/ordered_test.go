package ordered

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMap compares the map with a list.
func TestMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m Map[int, int]
		var keys, values []int
		for n, key := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 100).Draw(t, "keys") {
			if at := slices.Index(keys, key); at >= 0 {
				m.Remove(key)
				keys, values = slices.Delete(keys, at, at+1), slices.Delete(values, at, at+1)
			} else {
				m.Add(key, n+1)
				keys, values = append(keys, key), append(values, n+1)
			}
			if got := m.All(); !slices.Equal(got, values) {
				t.Fatalf("%v, want %v", got, values)
			}
			if m.byKey != nil && len(m.order) > 2*len(m.byKey)+20 {
				t.Fatalf("%d elements are kept for %d", len(m.order), len(m.byKey))
			}
			if at := slices.Index(keys, key); at >= 0 && m.Get(key) != values[at] || at < 0 && m.Get(key) != 0 {
				t.Fatal(key, m.Get(key))
			}
		}
	})
}
