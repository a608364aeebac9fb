package beat

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Whoever waits for the beat is there with all others, whenever it began and however late it is.
func TestUntil(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		begin := rapid.Int64Range(0, int64(time.Minute)).Draw(rt, "begin")
		period := rapid.SampledFrom([]time.Duration{50 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 7 * time.Second}).Draw(rt, "period")
		late := rapid.SliceOfN(rapid.Int64Range(0, int64(period)/2-1), 1, 5).Draw(rt, "late")
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Duration(begin))
			first := Until(period)
			if first <= period/2 || first > period*3/2 {
				t.Fatalf("the first wait is %v of %v", first, period)
			}
			time.Sleep(first)
			at := time.Now()
			if phase := (at.UnixNano() - process().shift) % int64(period); phase != 0 {
				t.Fatalf("%v behind the beat", time.Duration(phase))
			}
			for n, by := range late {
				time.Sleep(time.Duration(by))
				time.Sleep(Until(period))
				if behind := time.Since(at); behind != time.Duration(n+1)*period {
					t.Fatalf("beat %d is %v behind the first, want %v", n+1, behind, time.Duration(n+1)*period)
				}
			}
		})
	})
}

// Beats of the usual periods coincide.
func TestBeatsCoincide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(Until(2 * time.Second))
		for _, period := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
			if wait := Until(period); wait != period {
				t.Errorf("on the beat of 2 s, that of %v is %v away", period, wait)
			}
		}
	})
}
