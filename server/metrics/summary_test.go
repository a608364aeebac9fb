package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestBuckets: each duration is in a bucket whose middle is near to it, and longer ones
// are not in lower buckets.
func TestBuckets(t *testing.T) {
	last := 0
	for d := time.Duration(0); d < 18*time.Minute; d += max(1, d/100) {
		b := bucket(d)
		if b < last || b > last+1 {
			t.Fatalf("%d ns is in bucket %d behind %d", d, b, last)
		}
		last = b
		if m := middle(b); math.Abs(m-d.Seconds()) > d.Seconds()/64+1e-9/2 {
			t.Fatalf("%d ns: the middle of bucket %d is %g s", d, b, m)
		}
	}
	for d, want := range map[time.Duration]int{-1: 0, math.MinInt64: 0, math.MaxInt64: buckets - 1, time.Hour: buckets - 1} {
		if got := bucket(d); got != want {
			t.Errorf("%d is in bucket %d, want %d", d, got, want)
		}
	}
}

// TestQuantiles compares with sorting.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 999, 10_000} {
		s := new(summaries).with()
		var all []time.Duration
		for range n {
			d := time.Duration(math.Exp(random.Float64() * 25)) // to 72 s
			all = append(all, d)
			s.observe(d)
		}
		slices.Sort(all)
		for q, got := range s.quantiles() {
			want := all[int(math.Ceil(q*float64(n)))-1].Seconds()
			if math.Abs(got-want) > want/64+1e-9 {
				t.Errorf("%d observations: quantile %g is %g, want %g", n, q, got, want)
			}
		}
	}
}

// TestWindow: what is older than ten minutes is forgotten.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(summaries).with()
		median := func() float64 { return s.quantiles()[0.5] }
		if got := median(); !math.IsNaN(got) {
			t.Errorf("of nothing: %g", got)
		}
		s.observe(time.Second)
		for begin := time.Now(); time.Since(begin) < 8*time.Minute; time.Sleep(15 * time.Second) {
			if got := median(); math.Abs(got-1) > 1./64 {
				t.Fatalf("after %v: %g", time.Since(begin), got)
			}
		}
		for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(15 * time.Second) {
			median()
		}
		if got := median(); !math.IsNaN(got) {
			t.Errorf("after eleven minutes: %g", got)
		}
		s.observe(time.Minute)
		if got := median(); math.Abs(got-60) > 1 || s.count.Load() != 2 || s.sum.Load() != 61e9 {
			t.Errorf("%g, %d, %d", got, s.count.Load(), s.sum.Load())
		}
	})
}
