package app

import (
	"net/http"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/server/config"
)

// fakeLimits are limits with a clock and a number of clients of their own.
func fakeLimits(connLimit, rateLimit int) (a *admission, now *time.Time, clients *int) {
	now, clients = new(time.Time), new(int)
	*now = time.Unix(1, 0)
	a = newAdmission(func() int { return connLimit }, rateLimit, func() int { return *clients })
	a.now = func() time.Time { return *now }
	return a, now, clients
}

func admitted(a *admission, tries int) int {
	n := 0
	for range tries {
		if _, err := a.admit(); err == nil {
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
	if admitted(a, 5) != 5 || a.refusals() != 0 {
		t.Error("refused below the limit")
	}
	*clients = 2
	if admitted(a, 5) != 0 || a.refusals() != 5 {
		t.Errorf("%d refused at the limit", a.refusals())
	}
	unlimited, _, clients := fakeLimits(0, 0)
	*clients = 1000
	if admitted(unlimited, 1) != 1 {
		t.Error("refused without a limit")
	}
}

// TestAdmission: 503 for WebSocket and init, and nothing else.
func TestAdmission(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		cfg.Client.ConnectionLimit = 1
	})
	s.connect("u")
	if c, status := wstest.Handshake(t, s.url("/connection/websocket"), nil); c != nil || status != http.StatusServiceUnavailable {
		t.Errorf("WebSocket: %d", status)
	}
	if status, _ := get(t, s.url("/connection/init")); status != http.StatusServiceUnavailable {
		t.Errorf("init: %d", status)
	}
	if status, _ := get(t, s.url("/health")); status != http.StatusOK {
		t.Errorf("health: %d", status)
	}
	s.api("info", `{}`)
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
