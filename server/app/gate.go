package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/transport/front"
)

// gate is what all requests to an endpoint pass, whether a loop, a route of the front or
// net/http serves them.
type gate struct {
	log     *slog.Logger
	limits  *admission                      // nil: as many as come
	allowed func(origin string) bool        // nil: from anywhere
	count   func(method string, status int) // nil: they are not counted
}

// newGate makes the gate of an endpoint; path is what metrics call it.
func (a *App) newGate(path string, e endpoint) *gate {
	g := &gate{log: a.log}
	if a.meters.requests != nil {
		g.count = a.meters.requests.Counter(path)
	}
	if e.limited {
		g.limits = a.limits
	}
	if e.checkOrigin {
		g.allowed = a.origins.Match
	}
	return g
}

// What is told to those who may not enter.
var (
	full          = &front.Refusal{Status: http.StatusServiceUnavailable, Text: http.StatusText(http.StatusServiceUnavailable)}
	foreignOrigin = &front.Refusal{Status: http.StatusForbidden, Text: "origin not allowed"}
)

// Enter implements front.Gate. The limits come first: a node in trouble has to refuse
// cheaply.
func (g *gate) Enter(q *front.Request) *front.Refusal {
	if g.logs() {
		q.Began = time.Now()
	}
	if g.limits != nil && !g.limits.admit() {
		return full
	}
	if g.allowed == nil {
		return nil
	}
	if from := q.Get("Origin"); !g.allowed(from) {
		g.log.Info("connection refused: client.allowed_origins has no such origin",
			"origin", strings.ToValidUTF8(from[:min(len(from), 128)], ""), "addr", q.RemoteAddr)
		return foreignOrigin
	}
	return nil
}

// Leave implements front.Gate. The access log, at debug level, leaves the query out: it may
// hold an API key.
func (g *gate) Leave(q *front.Request, status int) {
	if g.count != nil {
		g.count(q.Method, status)
	}
	if g.logs() {
		g.log.Debug("request", "method", q.Method, "status", status, "path", q.Path,
			"addr", clientAddr(q), "duration", time.Since(q.Began).String())
	}
}

// logs reports whether there is an access log.
func (g *gate) logs() bool { return g.log.Enabled(context.Background(), slog.LevelDebug) }

// clientAddr is what the access log shows; nothing is decided by it.
func clientAddr(q *front.Request) string {
	for _, name := range []string{"X-Real-Ip", "X-Forwarded-For"} {
		if v := q.Get(name); v != "" {
			return v
		}
	}
	return q.RemoteAddr
}
