package channelset

import (
	"iter"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/proptest"
)

type item struct {
	channel string
	next    *item
}

func (i *item) Channel() string { return i.channel }
func (i *item) Next() **item    { return &i.next }

// store is a Set or a Table.
type store interface {
	Len() int
	Get(ch string) *item
	Add(b *item)
	Remove(b *item)
	All() iter.Seq[*item]
}

// A set and a table behave like maps, whatever is done to them.
func TestIsAMap(t *testing.T) {
	for seed := range uint64(proptest.Rounds(36)) { // each number of channels three times
		var set Set[*item]
		behave(t, seed, &set, func(ch string) {
			set.Remove(&item{channel: ch}) // another one of the same channel
			if most := set.most(); set.n > most || set.n == 0 && set.lists != nil {
				t.Fatalf("seed %d: %d items where %d have room", seed, set.n, most)
			}
		})
		var table Table[*item]
		behave(t, seed, &table, func(string) {})
	}
}

// behave does what the seed says. It calls also after each change of a channel.
func behave(t *testing.T, seed uint64, subs store, also func(ch string)) {
	r := rand.New(rand.NewPCG(seed, 0))
	want := make(map[string]*item)
	for range 200 {
		ch := strconv.Itoa(r.IntN(4 + int(seed%12)*int(1+seed%3)))
		b := want[ch]
		switch {
		case b == nil:
			b = &item{channel: ch}
			want[ch] = b
			subs.Add(b)
		case r.IntN(2) == 0:
			delete(want, ch)
			subs.Remove(b)
		}
		also(ch)
		if r.IntN(20) == 0 {
			seen := make(map[*item]bool)
			for b := range subs.All() {
				if seen[b] {
					t.Fatalf("seed %d: %q comes twice", seed, b.channel)
				}
				seen[b] = true
				if r.IntN(2) == 0 {
					delete(want, b.channel)
					subs.Remove(b)
				}
			}
		}
		got := make(map[string]*item)
		for b := range subs.All() {
			got[b.channel] = b
		}
		if !maps.Equal(got, want) || subs.Len() != len(want) {
			t.Fatalf("seed %d: got %d (n = %d), want %d", seed, len(got), subs.Len(), len(want))
		}
		for ch, b := range want {
			if subs.Get(ch) != b {
				t.Fatalf("seed %d: get(%q) is wrong", seed, ch)
			}
		}
		if subs.Get("none") != nil {
			t.Fatalf("seed %d: an item that does not exist", seed)
		}
	}
}

// A table of many items has lists of a few.
func TestTableLists(t *testing.T) {
	var table Table[*item]
	const n = 100_000
	items := make([]item, n)
	for i := range items {
		items[i].channel = "channel:" + strconv.Itoa(i)
		table.Add(&items[i])
	}
	for i := range table.parts {
		p := &table.parts[i]
		if p.n < n/parts/2 || p.n > n/parts*2 {
			t.Errorf("part %d has %d of %d items", i, p.n, n)
		}
		for _, b := range *p.lists {
			length := 0
			for ; b != nil; b = b.next {
				length++
			}
			if length > 20 {
				t.Errorf("%d items in one list", length)
			}
		}
	}
}

// A set that was large gets small again, and iterating allocates nothing.
func TestSetAllocs(t *testing.T) {
	var subs Set[*item]
	items := make([]item, 1000)
	for i := range items {
		items[i].channel = strconv.Itoa(i)
		subs.Add(&items[i])
	}
	count := func() (n int) {
		for range subs.All() {
			n++
		}
		return n
	}
	if n := testing.AllocsPerRun(10, func() { count() }); n > 0 || count() != 1000 {
		t.Errorf("%.1f allocations for %d of 1000 items", n, count())
	}
	for i := range items[:997] {
		subs.Remove(&items[i])
	}
	subs.Add(&item{channel: "new"})
	if subs.Len() != 4 || subs.lists != nil || subs.Get("998") != &items[998] || subs.Get("1") != nil {
		t.Errorf("%d items where %d have room", subs.Len(), subs.most())
	}
	if n := testing.AllocsPerRun(10, func() { count() }); n > 0 || count() != 4 {
		t.Errorf("%.1f allocations for %d of 4 items", n, count())
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 8, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var subs Set[*item]
			for i := range n {
				subs.Add(&item{channel: "namespace:" + strconv.Itoa(i)})
			}
			names := make([]string, 0, n)
			for it := range subs.All() {
				names = append(names, it.channel)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				subs.Get(names[i%n])
			}
		})
	}
}
