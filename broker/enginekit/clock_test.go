package enginekit

import (
	"testing"
	"time"
)

// Times keep their distance.
func TestSince(t *testing.T) {
	now := time.Now()
	if d := Since(now.Add(time.Hour)) - Since(now); d != int64(time.Hour) || Since(now) < 0 {
		t.Errorf("an hour is %v, and now %d", time.Duration(d), Since(now))
	}
}
