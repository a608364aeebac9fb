package beat

import (
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	now := 1_000 * int64(time.Second)
	for _, tt := range []struct {
		at      int64
		expires bool
		ttl     uint32
		capped  int64
	}{
		{0, false, 0, 0}, {-5, true, 1, 0}, {900, true, 1, 900}, {1000, true, 1, 1000}, {1030, true, 30, 1030},
		{1000 + maxTTL, true, uint32(maxTTL), 1000 + maxTTL}, {1001 + maxTTL, true, uint32(maxTTL) + 1, 1000 + maxTTL},
	} {
		if expires, ttl := Remaining(now, tt.at); expires != tt.expires || ttl != tt.ttl {
			t.Errorf("%d: %v, %d", tt.at, expires, ttl)
		}
		if got := CapExpiry(now, tt.at); got != tt.capped {
			t.Errorf("%d: capped to %d", tt.at, got)
		}
	}
}

func TestEarliest(t *testing.T) {
	for _, tt := range []struct {
		of   []int64
		want int64
	}{{nil, 0}, {[]int64{0, 0}, 0}, {[]int64{0, 3, 0, 2, 5}, 2}, {[]int64{1, 2}, 1}} {
		if got := Earliest(tt.of...); got != tt.want {
			t.Errorf("%v: %d", tt.of, got)
		}
	}
}
