// Package webtransport serves HTTP/3, and clients over WebTransport, in a module of its own,
// because it needs a QUIC stack. A Server serves the requests of an http.Handler over HTTP/3; a
// Handler in it takes WebTransport sessions.
//
//	mux.Handle("/connection/webtransport", webtransport.NewHandler(node, webtransport.Config{}))
//	https := &http.Server{Handler: mux, TLSConfig: certificates}
//	http3, err := webtransport.Listen(udp, https)
//	…
//	go http3.Serve()
//	https.Handler = http3.Advertise(mux)
//	err = https.ServeTLS(tcp, "", "")
package webtransport

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/internal/refuse"
)

// Config of a Handler. The zero value is ready to use.
type Config struct {
	// MessageSizeLimit is the most bytes of a client's message. Above it the connection ends
	// with protocol.DisconnectBadRequest. Default: 65536.
	MessageSizeLimit int
	// WriteTimeout is how long the client may block one write before protocol.DisconnectWriteError. Default: 1 s.
	WriteTimeout time.Duration
	// CloseTimeout is how long the client may take to close a session that the server ends. Default: 5 s.
	CloseTimeout time.Duration
	// CheckOrigin reports whether a request may open a session; if not, it gets 403. Any goroutines call it
	// concurrently. Default: the host of the Origin field is the request's host, in any letter case, or there is no
	// Origin.
	CheckOrigin func(q *front.Request) bool
}

// Handler takes the WebTransport sessions of a Server's clients and hands them to an acceptor. It is safe for
// concurrent use and fits any router. Requests that did not come to a Server are refused. ServeHTTP returns when the
// session is open; Server.Shutdown waits for its end.
//
// A connection is the first bidirectional stream of the client. In JSON every message is a line, in Protobuf it comes
// after its length; the query cf_protocol=protobuf chooses Protobuf. A client that is disconnected gets a disconnect
// push, then the end of the stream. If it does not close the session, the server does, with code and reason of the
// disconnect. Datagrams are ignored, and further streams refused.
type Handler struct {
	acceptor transport.Acceptor
	check    func(q *front.Request) bool
	cfg      settings
	refuser  refuse.Refuser
}

const name = "webtransport"

// NewHandler returns a handler whose connections go to acceptor, with a context that has the values of the request's and
// is never done.
func NewHandler(acceptor transport.Acceptor, cfg Config) *Handler {
	refuser := refuse.Refuser{Acceptor: acceptor, Kind: "WebTransport session refused", Prefix: "webtransport: ", Allow: http.MethodConnect}
	h := &Handler{acceptor: acceptor, check: cfg.CheckOrigin, refuser: refuser, cfg: settings{
		limit:    cmp.Or(max(cfg.MessageSizeLimit, 0), 64<<10),
		timeouts: transport.Timeouts{Write: cmp.Or(max(cfg.WriteTimeout, 0), time.Second)},
	}}
	h.cfg.timeouts.Close = cmp.Or(max(cfg.CloseTimeout, 0), 5*time.Second)
	h.cfg.timeouts.Await = h.cfg.timeouts.Close
	if h.check == nil {
		h.check = refuse.SameOrigin
	}
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := front.FromHTTP(r)
	c, no := h.examine(r, q)
	if no == nil {
		no = h.open(c, w, r, q)
	}
	if no != nil {
		h.refuser.Refuse(w, q, no)
	}
}

func (h *Handler) examine(r *http.Request, q *front.Request) (*connection, *refuse.Refusal) {
	c := connectionOf(r.Context())
	switch {
	case c == nil:
		return nil, refuse.BadRequest("this path is for WebTransport clients, which come over HTTP/3")
	case r.Method != http.MethodConnect:
		return nil, &refuse.Refusal{Status: http.StatusMethodNotAllowed, Text: "the method is not CONNECT: this path is for WebTransport clients"}
	case !strings.HasPrefix(r.Proto, "webtransport"):
		return nil, refuse.BadRequest("the protocol of the CONNECT request is not webtransport")
	case !h.check(q):
		return nil, &refuse.Refusal{
			Status: http.StatusForbidden, Key: "webtransport.Config.CheckOrigin",
			Text: "origin not allowed: webtransport.Config.CheckOrigin refuses it, by default all but the request's own host",
		}
	}
	return c, nil
}

func (h *Handler) open(c *connection, w http.ResponseWriter, r *http.Request, q *front.Request) *refuse.Refusal {
	control := http.NewResponseController(w)
	if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})); err != nil {
		return &refuse.Refusal{Status: http.StatusInternalServerError, Text: "the session cannot be opened: " + err.Error()}
	}
	session, err := c.server.sessions.Upgrade(innermost(w), r)
	if err != nil {
		return refuse.BadRequest(strings.TrimPrefix(err.Error(), "webtransport: "))
	}
	c.begin()
	context.AfterFunc(session.Context(), c.end)
	f := framers[protocol.JSON]
	if query, _ := url.ParseQuery(q.Query); query.Get("cf_protocol") == "protobuf" || query.Get("format") == "protobuf" {
		f = framers[protocol.Protobuf]
	}
	l := newLink(session)
	driver.NewStreamConn(netio.NewStream(l), endpoint{cfg: &h.cfg, framer: f, link: l}).Serve(h.acceptor, driver.Candidate{
		Ctx: context.WithoutCancel(r.Context()),
		Info: transport.Info{
			Name: name, Framer: f, Header: q.Header(), RemoteAddr: q.RemoteAddr, HTTP: q.HTTP, DisconnectPush: true,
		},
	}, true)
	return nil
}

// innermost returns the http.ResponseWriter of the server, without middleware.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

// The driver needs the methods of these.
var (
	_ transport.Endpoint = (*endpoint)(nil)
	_ netio.Duplex       = (*link)(nil)
)
