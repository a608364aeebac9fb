package app

import (
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// admission limits new connections (config.md 5.2). The limits come first: a
// node in trouble has to refuse cheaply.
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
	limit, full := a.full()
	if !full {
		return true
	}
	a.refused++
	if now := a.now(); now.Sub(a.lastWarned) >= warnEvery {
		a.lastWarned = now
		a.log.Warn("connection limit reached", "client.connection_limit", limit, "refused", a.refused)
	}
	return false
}

// refusals are how many connections were above the limit.
func (a *admission) refusals() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// hasRoom is admit for who turns to admit next if it is refused: a refusal takes no
// token and is not counted.
func (a *admission) hasRoom() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, full := a.full()
	return !full && a.takeToken()
}

// full tells whether there are as many clients as the limit allows.
func (a *admission) full() (limit int, full bool) {
	limit = a.connLimit()
	return limit, limit > 0 && a.clients() >= limit
}

// takeToken reports false if there is none.
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

// wrap applies the limits to a transport's handler: 503 above them.
func (a *admission) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.admit() {
			http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}
