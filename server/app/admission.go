package app

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/refusal"
)

// admission limits new connections: their rate, and the number of clients.
type admission struct {
	clients func() int
	now     func() time.Time

	connLimit func() int
	rateLimit int

	mu      sync.Mutex
	tokens  float64
	filled  time.Time
	refused uint64
}

// Why connections are refused, and what clients are told.
var (
	errUnavailable = errors.New("Service Unavailable")

	errTooMany = refusal.Because(errUnavailable, "client.connection_limit", "the node has as many connections as client.connection_limit allows")
	errTooFast = refusal.Because(errUnavailable, "client.connection_rate_limit", "more connections come in a second than client.connection_rate_limit allows")
)

func newAdmission(connLimit func() int, rateLimit int, clients func() int) *admission {
	return &admission{
		clients: clients, now: time.Now, connLimit: connLimit, rateLimit: rateLimit, tokens: float64(rateLimit),
	}
}

// admit takes one of rateLimit tokens a second, and compares the number of
// clients with the limit. The level is that of the line about an error.
func (a *admission) admit() (slog.Level, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.takeToken() {
		return slog.LevelInfo, errTooFast
	}
	limit := a.connLimit()
	if limit <= 0 || a.clients() < limit {
		return slog.LevelInfo, nil
	}
	a.refused++
	return slog.LevelWarn, errTooMany
}

// refusals returns how many connections client.connection_limit refused.
func (a *admission) refusals() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// takeToken reports false if no token is left.
func (a *admission) takeToken() bool {
	if a.rateLimit <= 0 {
		return true
	}
	now := a.now()
	if !a.filled.IsZero() {
		a.tokens = min(float64(a.rateLimit), a.tokens+now.Sub(a.filled).Seconds()*float64(a.rateLimit))
	}
	a.filled = now
	if a.tokens < 1 {
		return false
	}
	a.tokens--
	return true
}
