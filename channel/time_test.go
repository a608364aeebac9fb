package channel

import (
	"math"
	"testing"
	"time"
)

func TestUnix(t *testing.T) {
	for seconds, want := range map[int64]int64{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 1, 2000000000: 2000000000,
		farthest: farthest, farthest + 1: farthest, math.MaxInt64: farthest,
	} {
		at := FromUnix(seconds)
		if got := ToUnix(at); got != want {
			t.Errorf("%d comes back as %d, want %d", seconds, got, want)
		}
		if at.IsZero() != (want == 0) || want > 1 && !at.After(time.Unix(1, 0)) {
			t.Errorf("%d is %v", seconds, at)
		}
	}
	for at, want := range map[time.Time]int64{
		time.Unix(0, 0): 1, time.Unix(-1, 0): 1, time.Unix(5, 999999999): 5,
	} {
		if got := ToUnix(at); got != want {
			t.Errorf("%v is %d, want %d", at, got, want)
		}
	}
}
