package web

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/refusal"
)

// Limits admit new connections, by their rate and by the number of clients. Any goroutine may use them.
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

var (
	// ErrUnavailable is the answer to clients.
	ErrUnavailable = errors.New("Service Unavailable")

	// ErrTooMany refuses by client.connection_limit.
	ErrTooMany = refusal.Because(ErrUnavailable, "client.connection_limit", "the node has as many connections as client.connection_limit allows")
	// ErrTooFast refuses by client.connection_rate_limit.
	ErrTooFast = refusal.Because(ErrUnavailable, "client.connection_rate_limit", "more connections come in a second than client.connection_rate_limit allows")
)

// NewLimits returns limits: connLimit returns the largest number of clients, clients the present one; rateLimit is the
// number of connections per second. 0: no limit.
func NewLimits(connLimit func() int, rateLimit int, clients func() int) *Limits {
	return &Limits{
		clients: clients, now: time.Now, connLimit: connLimit, rateLimit: rateLimit, tokens: float64(rateLimit),
	}
}

// Admit decides on a connection. With an error it returns the level of its log line.
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
