package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/transport/front"
)

// gate is the gate of an endpoint, for requests from a loop, from a route of the front and from net/http.
type gate struct {
	log      *slog.Logger
	access   logs.Access
	refusals refusal.Reporter
	limits   *Limits                         // nil: no limits
	origins  *config.Origins                 // nil: all origins are allowed
	rule     foreignRule                     // for the others
	embedded func(path string) bool          // nil: no path is excepted
	known    func(host string) bool          // nil: all hosts are known
	count    func(method string, status int) // nil: requests are not counted
	foreign  error                           // why other origins are refused
	identity []string                        // header fields that identify a client, beside Cookie

	certified bool // clients need a certificate, which browsers send by themselves
}

// foreignRule is for requests that a page of a foreign origin causes.
type foreignRule uint8

const (
	serveForeign  foreignRule = iota
	refuseForeign             // all are refused
	// refuseCredentials refuses requests with credentials: cookies, a certificate or a password that the browser adds, a
	// user name that a reverse proxy adds. Other requests can do no more than requests without a browser. Pages of the
	// endpoint's own host are not foreign.
	refuseCredentials
)

// newGate makes a gate. path is the endpoint's label in metrics.
func (w *Web) newGate(path string, e Endpoint) *gate {
	g := &gate{log: w.Log, access: logs.AccessOf(w.Log), refusals: refusal.Reporter{Log: w.Log}}
	if w.Counter != nil {
		g.count = w.Counter(path)
	}
	if e.limited {
		g.limits = w.Limits
	}
	if e.foreign != serveForeign {
		g.origins, g.rule, g.embedded = w.Origins, e.foreign, e.embedded
		g.foreign, g.identity = ForeignOrigin(w.Settings.Client.AllowedOrigins), w.identityFields()
		g.certified = w.Settings.HTTPServer.TLS.Enabled && w.Settings.HTTPServer.TLS.ClientCAPEM != ""
	}
	if e.CheckHost {
		g.known = w.KnowsHost
	}
	return g
}

var (
	foreignOrigin = &front.Refusal{Status: http.StatusForbidden, Text: "origin not allowed: client.allowed_origins of the server does not name it"}
	unknownHost   = &front.Refusal{Status: http.StatusForbidden, Text: "this server does not answer under that host name"}
)

// ForeignOrigin returns the reason for refusing other origins.
func ForeignOrigin(allowed []string) error {
	text := "client.allowed_origins is empty, so pages of no origin are allowed"
	if len(allowed) > 0 {
		text = "client.allowed_origins allows " + strings.Join(allowed, ", ")
	}
	return refusal.Because(errors.New("origin not allowed"), "client.allowed_origins", text)
}

// Enter implements front.Gate. The limits come first: a node with too many clients must refuse at little cost.
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
	if g.isForeign(q) {
		g.refusals.Report(refusal.Refusal{Kind: "connection refused: its origin is not allowed", Addr: q.RemoteAddr, Origin: q.Get("Origin")},
			http.StatusForbidden, g.foreign)
		return foreignOrigin
	}
	return nil
}

func (g *gate) isForeign(q *front.Request) bool {
	switch {
	case g.origins == nil || !g.origins.Foreign(q.Get):
		return false
	case g.rule == refuseForeign:
		return g.embedded == nil || !g.embedded(q.Path)
	}
	return !ofOwnHost(q) && g.hasCredentials(q)
}

func (g *gate) hasCredentials(q *front.Request) bool {
	return q.Get("Cookie") != "" || g.certified ||
		slices.ContainsFunc(g.identity, func(name string) bool { return q.Get(name) != "" })
}

// ofOwnHost reports whether the page is of the host of the request.
func ofOwnHost(q *front.Request) bool {
	u, err := url.Parse(q.Get("Origin"))
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, q.Host)
}

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
		attrs := []slog.Attr{
			slog.String("method", q.Method), slog.Int("status", status), slog.String("path", excerpt(q.Path)), slog.String("addr", excerpt(clientAddr(q))),
			logging.Milliseconds("duration", time.Since(q.Began)),
		}
		if q.Sent >= 0 && status != http.StatusSwitchingProtocols {
			attrs = append(attrs, slog.Int("response_bytes", q.Sent))
		}
		g.log.LogAttrs(context.Background(), level, "request", attrs...)
	}
}

// clientAddr is for the access log alone: clients choose these headers.
func clientAddr(q *front.Request) string {
	for _, name := range []string{"X-Real-Ip", "X-Forwarded-For"} {
		if v := q.Get(name); v != "" {
			return v
		}
	}
	return q.RemoteAddr
}
