package beat

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNext(t *testing.T) {
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
		if got := (Beat{}).Next(int64(c.now), c.interval); got != int64(c.want) {
			t.Errorf("%v after %v: %v, want %v", c.interval, c.now, time.Duration(got), c.want)
		}
	}
}

// Whatever the phase, a session is first looked at in the second half of the interval, on
// the beat; all phases are in use, and sessions of the same phase are due at the same time
// even when one started later.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := rapid.Int64Range(int64(100*time.Millisecond), int64(time.Minute)).Draw(t, "interval")
		now := rapid.Int64Range(int64(time.Second), int64(time.Hour)).Draw(t, "now")
		later := now + rapid.Int64Range(0, interval).Draw(t, "later")
		beat, node := int64(lengthOf(time.Duration(interval))), Beat{rapid.Int64Range(0, int64(time.Second)-1).Draw(t, "shift")}
		moments := make(map[int64]bool)
		for phase := int64(0); ; phase++ {
			n := int64(0)
			pick := func(of int64) int64 { n = of; return phase }
			first := node.First(now, time.Duration(interval), pick)
			if phase >= n {
				break
			}
			if moments[first] = true; (first-node.shift)%beat != 0 || first < now+interval/2 || first > now+interval {
				t.Fatalf("first after %v", time.Duration(first-now))
			}
			if other := node.First(later, time.Duration(interval), pick); (other-first)%(n*beat) != 0 {
				t.Fatalf("one at %d, another of the same phase at %d", first, other)
			}
			if phase == n-1 && int64(len(moments)) != n {
				t.Fatalf("%d moments of %d phases", len(moments), n)
			}
		}
	})
}

// Nodes have beats of their own, each always the same.
func TestBeatOf(t *testing.T) {
	moments := make(map[int64]bool)
	for i := range 100 {
		uid := fmt.Sprint("node ", i)
		next := Of(uid).Next(int64(time.Hour), 25*time.Second)
		if again := Of(uid).Next(int64(time.Hour), 25*time.Second); again != next {
			t.Fatalf("%s: %d, then %d", uid, next, again)
		}
		moments[next] = true
	}
	if len(moments) < 95 {
		t.Errorf("100 nodes have %d beats", len(moments))
	}
}
