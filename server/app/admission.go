package app

import (
	"log/slog"
	"sync"
	"time"
)

// admission limits new connections: their rate, and the number of clients (config.md 5.2).
type admission struct {
	clients func() int
	log     *slog.Logger
	now     func() time.Time

	connLimit func() int
	rateLimit int

	mu         sync.Mutex
	tokens     float64
	filled     time.Time
	lastWarned time.Time
	refused    uint64
}

// warnEvery is the least time between two warnings about the connection limit.
const warnEvery = 3 * time.Second

func newAdmission(connLimit func() int, rateLimit int, clients func() int, log *slog.Logger) *admission {
	return &admission{
		clients: clients, log: log, now: time.Now, connLimit: connLimit, rateLimit: rateLimit, tokens: float64(rateLimit),
	}
}

// admit takes one of rateLimit tokens a second, and compares the number of
// clients with the limit.
func (a *admission) admit() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.takeToken() {
		return false
	}
	limit := a.connLimit()
	if limit <= 0 || a.clients() < limit {
		return true
	}
	a.refused++
	if now := a.now(); now.Sub(a.lastWarned) >= warnEvery {
		a.lastWarned = now
		a.log.Warn("connection limit reached", "client.connection_limit", limit, "refused", a.refused)
	}
	return false
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
