package session

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
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

func TestOnBeat(t *testing.T) {
	for _, c := range []struct {
		now, interval, want time.Duration
	}{
		{0, 25 * time.Second, 25 * time.Second},
		{5*time.Second + 60*time.Millisecond, 25 * time.Second, 30 * time.Second},
		{5*time.Second - 60*time.Millisecond, 25 * time.Second, 30 * time.Second},
		{10*time.Second + 300*time.Millisecond, 25 * time.Second, 35 * time.Second},
		{5*time.Second + 60*time.Millisecond, time.Second, 6 * time.Second},
		{5*time.Second + 130*time.Millisecond, time.Second, 6*time.Second + 250*time.Millisecond},
		{5*time.Second + 20*time.Millisecond, 300 * time.Millisecond, 5*time.Second + 300*time.Millisecond},
		{5*time.Second + 20*time.Millisecond, 130 * time.Millisecond, 5*time.Second + 150*time.Millisecond},
		{5*time.Second + 20*time.Millisecond, time.Nanosecond, 5*time.Second + 50*time.Millisecond},
	} {
		if got := onBeat(int64(c.now), c.interval); got != int64(c.want) {
			t.Errorf("%v after %v: %v, want %v", c.interval, c.now, time.Duration(got), c.want)
		}
	}
}

// phaseEnv is an environment that picks phases, and cannot do anything else.
type phaseEnv struct {
	Env
	phase func(n int64) int64
}

func (e phaseEnv) Phase(n int64) int64 { return e.phase(n) }

// Whatever the phase, a session is first looked at in the second half of the interval, on
// the beat; all phases are in use, and sessions of the same phase are due at the same time
// even when one started later.
func TestFirstBeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := rapid.Int64Range(int64(100*time.Millisecond), int64(time.Minute)).Draw(t, "interval")
		now := rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")
		later := now + rapid.Int64Range(0, interval).Draw(t, "later")
		beat := beatOf(interval)
		moments := make(map[int64]bool)
		for phase := int64(0); ; phase++ {
			n := int64(0)
			s := Session{env: phaseEnv{phase: func(of int64) int64 { n = of; return phase }}}
			first := s.firstBeat(now, time.Duration(interval))
			if phase >= n {
				break
			}
			if moments[first] = true; first%beat != 0 || first < now+interval/2 || first > now+interval {
				t.Fatalf("first after %v", time.Duration(first-now))
			}
			if other := s.firstBeat(later, time.Duration(interval)); (other-first)%(n*beat) != 0 {
				t.Fatalf("one at %d, another of the same phase at %d", first, other)
			}
			if phase == n-1 && int64(len(moments)) != n {
				t.Fatalf("%d moments of %d phases", len(moments), n)
			}
		}
	})
}
