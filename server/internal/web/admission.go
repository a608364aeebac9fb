package web

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/refusal"
)

// Limits decide about new connections: they limit their rate, and the number of clients. They are safe for concurrent
// use.
type Limits struct {
	clients func() int
	now     func() time.Time

	connLimit func() int
	rateLimit int

	mu      sync.Mutex
	tokens  float64
	filled  time.Time
	refused uint64
}

// The reasons for refusals of connections.
var (
	// ErrUnavailable is the answer to clients.
	ErrUnavailable = errors.New("Service Unavailable")

	// ErrTooMany refuses by client.connection_limit.
	ErrTooMany = refusal.Because(ErrUnavailable, "client.connection_limit", "the node has as many connections as client.connection_limit allows")
	// ErrTooFast refuses by client.connection_rate_limit.
	ErrTooFast = refusal.Because(ErrUnavailable, "client.connection_rate_limit", "more connections come in a second than client.connection_rate_limit allows")
)

// NewLimits returns limits: connLimit returns the most clients that may be connected, clients how many there are, and
// rateLimit is how many connections may come in a second. Limits of 0 do not count.
func NewLimits(connLimit func() int, rateLimit int, clients func() int) *Limits {
	return &Limits{
		clients: clients, now: time.Now, connLimit: connLimit, rateLimit: rateLimit, tokens: float64(rateLimit),
	}
}

// Admit takes one of rateLimit tokens a second, and compares the number of clients with the limit. With an error it
// returns the level of its log line.
func (a *Limits) Admit() (slog.Level, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.takeToken() {
		return slog.LevelInfo, ErrTooFast
	}
	limit := a.connLimit()
	if limit <= 0 || a.clients() < limit {
		return slog.LevelInfo, nil
	}
	a.refused++
	return slog.LevelWarn, ErrTooMany
}

// Refusals returns how many connections client.connection_limit refused.
func (a *Limits) Refusals() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// takeToken reports false if no token is left.
func (a *Limits) takeToken() bool {
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
