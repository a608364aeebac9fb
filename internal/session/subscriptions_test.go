package session

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

// The list and the map behave like a map, whatever is done to them.
func TestSubscriptionsAreAMap(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var subs subscriptions
		want := make(map[string]*Subscription)
		for range 200 {
			ch := strconv.Itoa(r.IntN(4 + int(seed%12)))
			switch b := want[ch]; {
			case b == nil:
				b = &Subscription{channel: ch}
				want[ch] = b
				subs.add(b)
			case r.IntN(2) == 0:
				subs.remove(&Subscription{channel: ch}) // another one of the same channel
			default:
				delete(want, ch)
				subs.remove(b)
			}
			if r.IntN(20) == 0 {
				for b := range subs.all() {
					if r.IntN(2) == 0 {
						delete(want, b.channel)
						subs.remove(b)
					}
				}
			}
			got := make(map[string]*Subscription)
			for b := range subs.all() {
				got[b.channel] = b
			}
			if !maps.Equal(got, want) || subs.n != len(want) {
				t.Fatalf("seed %d: got %d (n = %d), want %d", seed, len(got), subs.n, len(want))
			}
			for ch, b := range want {
				if subs.get(ch) != b {
					t.Fatalf("seed %d: get(%q) is wrong", seed, ch)
				}
			}
			if len(want) <= listAgain && subs.index != nil || len(want) > listMost && subs.index == nil {
				t.Fatalf("seed %d: %d subscriptions, map %v", seed, len(want), subs.index != nil)
			}
		}
	}
}

// What there is once per connection and once per subscription is not to grow by
// accident.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	for _, s := range []struct {
		name        string
		size, limit uintptr
	}{
		{"Session", unsafe.Sizeof(Session{}), 232},
		{"Subscription", unsafe.Sizeof(Subscription{}), 112},
	} {
		if s.size > s.limit {
			t.Errorf("%s has %d bytes, limit %d", s.name, s.size, s.limit)
		}
	}
}
