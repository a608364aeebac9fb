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

// The list and the map behave like a map, whatever is done to them.
func TestSetIsAMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var subs Set[*item]
		want := make(map[string]*item)
		for range 200 {
			ch := strconv.Itoa(r.IntN(4 + int(seed%12)))
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
				for b := range subs.All() {
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
			if len(want) <= listAgain && subs.index != nil || len(want) > listMost && subs.index == nil {
				t.Fatalf("seed %d: %d items, map %v", seed, len(want), subs.index != nil)
			}
		}
	}
}
