package web

import (
	"testing"
	"time"
)

// fakeLimits are limits with a clock and a number of clients of their own.
func fakeLimits(connLimit, rateLimit int) (a *Limits, now *time.Time, clients *int) {
	now, clients = new(time.Time), new(int)
	*now = time.Unix(1, 0)
	a = NewLimits(func() int { return connLimit }, rateLimit, func() int { return *clients })
	a.now = func() time.Time { return *now }
	return a, now, clients
}

func admitted(a *Limits, tries int) int {
	n := 0
	for range tries {
		if _, err := a.Admit(); err == nil {
			n++
		}
	}
	return n
}

// TestRateLimit: bursts of N, N per second.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	a, now, _ := fakeLimits(0, 10)
	for i, step := range []struct {
		pass time.Duration
		want int
	}{
		{0, 10}, {0, 0}, {100 * time.Millisecond, 1}, {550 * time.Millisecond, 5}, {50 * time.Millisecond, 1},
		{time.Hour, 10}, {-time.Hour, 0}, {time.Hour + time.Second, 10},
	} {
		*now = now.Add(step.pass)
		if got := admitted(a, 20); got != step.want {
			t.Errorf("step %d: %d admitted, want %d", i, got, step.want)
		}
	}
}

// TestConnectionLimit: what is refused is counted.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	a, _, clients := fakeLimits(2, 0)
	if admitted(a, 5) != 5 || a.Refusals() != 0 {
		t.Error("refused below the limit")
	}
	*clients = 2
	if admitted(a, 5) != 0 || a.Refusals() != 5 {
		t.Errorf("%d refused at the limit", a.Refusals())
	}
	unlimited, _, clients := fakeLimits(0, 0)
	*clients = 1000
	if admitted(unlimited, 1) != 1 {
		t.Error("refused without a limit")
	}
}

// TestRateFirst: requests above the rate do not count as refused by the limit.
func TestRateFirst(t *testing.T) {
	t.Parallel()
	a, _, clients := fakeLimits(1, 2)
	*clients = 1
	if n := admitted(a, 5); n != 0 || a.refused != 2 {
		t.Errorf("%d admitted, %d refused by the limit", n, a.refused)
	}
}
