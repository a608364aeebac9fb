package bychannel

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

type item struct {
	channel string
	next    *item
}

func (i *item) Channel() string { return i.channel }
func (i *item) Next() **item    { return &i.next }

// A set behaves like a map, whatever is done to it.
func TestSetIsAMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var subs Set[*item]
		want := make(map[string]*item)
		for range 200 {
			ch := strconv.Itoa(r.IntN(4 + int(seed%12)*int(1+seed%3)))
			switch b := want[ch]; {
			case b == nil:
				b = &item{channel: ch}
				want[ch] = b
				subs.Add(b)
			case r.IntN(2) == 0:
				subs.Remove(&item{channel: ch}) // another one of the same channel
			default:
				delete(want, ch)
				subs.Remove(b)
			}
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
			if !maps.Equal(got, want) || subs.n != len(want) {
				t.Fatalf("seed %d: got %d (n = %d), want %d", seed, len(got), subs.n, len(want))
			}
			for ch, b := range want {
				if subs.Get(ch) != b {
					t.Fatalf("seed %d: get(%q) is wrong", seed, ch)
				}
			}
			if most := subs.most(); len(want) > most || len(want) == 0 && subs.lists != nil {
				t.Fatalf("seed %d: %d items where %d have room", seed, len(want), most)
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
