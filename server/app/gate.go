package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/app/internal/admission"
	"github.com/gyrohq/gyro/server/logs"
	"github.com/gyrohq/gyro/transport/front"
)

// gate is passed by every request to an endpoint, whether a loop, a route of the front or
// net/http serves it.
type gate struct {
	log      *slog.Logger
	access   logs.Access
	refusals refusal.Reporter
	limits   *admission.Limits               // nil: no limits
	allowed  func(origin string) bool        // nil: all origins are allowed
	known    func(host string) bool          // nil: all hosts are known
	count    func(method string, status int) // nil: requests are not counted
	foreign  error                           // why other origins are refused
}

// newGate makes the gate of an endpoint; path is the endpoint's label in the metrics.
func (a *App) newGate(path string, e endpoint) *gate {
	g := &gate{log: a.log, access: logs.AccessOf(a.log), refusals: refusal.Reporter{Log: a.log}}
	if a.meters.requests != nil {
		g.count = a.meters.requests.Counter(path)
	}
	if e.limited {
		g.limits = a.limits
	}
	if e.checkOrigin {
		g.allowed, g.foreign = a.origins.Match, foreign(a.cfg.Client.AllowedOrigins)
	}
	if e.checkHost {
		g.known = a.knowsHost
	}
	return g
}

// Answers to requests that the gate refuses.
var (
	foreignOrigin = &front.Refusal{Status: http.StatusForbidden, Text: "origin not allowed: client.allowed_origins of the server does not name it"}
	unknownHost   = &front.Refusal{Status: http.StatusForbidden, Text: "this server does not answer under that host name"}
)

// foreign returns the reason for refusing other origins.
func foreign(allowed []string) error {
	text := "client.allowed_origins is empty, so pages of no origin are allowed"
	if len(allowed) > 0 {
		text = "client.allowed_origins allows " + strings.Join(allowed, ", ")
	}
	return refusal.Because(errors.New("origin not allowed"), "client.allowed_origins", text)
}

// Enter implements front.Gate. It checks the limits first, because a node with too many
// clients must refuse at little cost.
func (g *gate) Enter(q *front.Request) *front.Refusal {
	if g.access.On() {
		q.Began = time.Now()
	}
	if g.limits != nil {
		if level, err := g.limits.Admit(); err != nil {
			g.refusals.Report(refusal.Refusal{Kind: "connection refused: there are too many", Level: level, Addr: q.RemoteAddr},
				http.StatusServiceUnavailable, err)
			return &front.Refusal{Status: http.StatusServiceUnavailable, Text: err.Error()}
		}
	}
	if g.known != nil && !g.known(q.Host) {
		g.log.Info("request refused: the server does not answer under that host name", "path", excerpt(q.Path), "host", excerpt(q.Host), "addr", q.RemoteAddr)
		return unknownHost
	}
	if g.allowed == nil {
		return nil
	}
	if from := q.Get("Origin"); !g.allowed(from) {
		g.refusals.Report(refusal.Refusal{Kind: "connection refused: its origin is not allowed", Addr: q.RemoteAddr, Origin: from},
			http.StatusForbidden, g.foreign)
		return foreignOrigin
	}
	return nil
}

// excerpt is what the log shows of a text that a client chose.
func excerpt(text string) string { return strings.ToValidUTF8(text[:min(len(text), 128)], "") }

// Leave implements front.Gate. The access log has paths without their query, which may hold an API key.
func (g *gate) Leave(q *front.Request, status int) {
	if g.count != nil {
		g.count(q.Method, status)
	}
	if q.Began.IsZero() { // there was no access log
		return
	}
	if level, ok := g.access.Next(); ok {
		g.log.Log(context.Background(), level, "request", "method", q.Method, "status", status, "path", excerpt(q.Path),
			"addr", excerpt(clientAddr(q)), "duration", time.Since(q.Began).String())
	}
}

// clientAddr is the client's address for the access log. No decision may depend on it:
// clients choose these headers.
func clientAddr(q *front.Request) string {
	for _, name := range []string{"X-Real-Ip", "X-Forwarded-For"} {
		if v := q.Get(name); v != "" {
			return v
		}
	}
	return q.RemoteAddr
}
