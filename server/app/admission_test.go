package app

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/server/config"
)

// fakeLimits are limits with a clock and a number of clients of their own.
func fakeLimits(connLimit, rateLimit int) (a *admission, now *time.Time, clients *int, logs *bytes.Buffer) {
	now, clients, logs = new(time.Time), new(int), new(bytes.Buffer)
	*now = time.Unix(1, 0)
	a = newAdmission(func() int { return connLimit }, rateLimit, func() int { return *clients }, newLogger(logs, "info", false))
	a.now = func() time.Time { return *now }
	return a, now, clients, logs
}

func admitted(a *admission, tries int) int {
	n := 0
	for range tries {
		if a.admit() {
			n++
		}
	}
	return n
}

// TestRateLimit: bursts of N, N per second.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	a, now, _, _ := fakeLimits(0, 10)
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

// TestConnectionLimit: a warning at most every 3 s.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	a, now, clients, logs := fakeLimits(2, 0)
	warnings := func() int { return strings.Count(logs.String(), "connection limit reached") }
	if admitted(a, 5) != 5 || warnings() != 0 {
		t.Error("refused below the limit")
	}
	*clients = 2
	if admitted(a, 5) != 0 || warnings() != 1 {
		t.Errorf("at the limit: %s", logs)
	}
	*now = now.Add(warnEvery)
	if admitted(a, 5) != 0 || warnings() != 2 || !strings.Contains(logs.String(), `"refused":6`) {
		t.Errorf("3 s later: %s", logs)
	}
	unlimited, _, clients, _ := fakeLimits(0, 0)
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
	a, _, clients, logs := fakeLimits(1, 2)
	*clients = 1
	if n := admitted(a, 5); n != 0 || a.refused != 2 {
		t.Errorf("%d admitted, %d refused by the limit: %s", n, a.refused, logs)
	}
}
