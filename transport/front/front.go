// Package front accepts the connections of an HTTP server. It gives the first request of each to its route: a
// transport that takes the connection on a loop, without a goroutine, or answers later, or an endpoint that answers
// small requests without net/http. All other connections go to net/http, with every byte that was read.
//
// Routes get only requests that are valid beyond doubt, and net/http decides on all others, so there are no two sets
// of rules. Requests pass the Gate of a route either way.
//
//	h := websocket.NewHandler(node, websocket.Config{})
//	server := &http.Server{Handler: h}
//	err := server.Serve(front.Listen(ln, server, node, h.Route("/connection/websocket")))
package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Route is a fast way for the requests to one path, by Take or by Answer, past the server's Handler.
type Route struct {
	// Method and Path of the requests. The path is compared literally; a query may follow.
	Method, Path string
	// Upgrade is a protocol that the field Upgrade must hold; "": there must be no such field.
	Upgrade string
	// Gate that the requests pass; nil: none. If net/http serves the path, too, wrap that handler with the same gate
	// (Wrap).
	Gate Gate
	// Advertise appends fields, each with its CR LF, to the head of every answer that net/http does not send, refusals
	// by the Gate included. Loops and any goroutines call it concurrently; it must not block. Nil: none.
	Advertise func(q *Request, head []byte) []byte

	// Take is called on a loop for a request without a body, or with one if MaxBody is set. It must not block. It may
	// take the connection (Arrival.Take), or answer later (Arrival.Defer); else net/http gets the request.
	Take func(a *Arrival)
	// MaxBody is the most bytes of a body for Take, up to 64 KB. If it is set, requests have a body of known length;
	// net/http gets larger ones. Default: 0, there is no body.
	MaxBody int

	// Try, if set, is called before Answer, on a loop, if connections live on loops. It must not block. It returns a
	// status, as Answer does, but no body. If it has done nothing, it returns status 0, and where to go on: the
	// connection moves to the loop next, which tries again, or, if next is nil, to a goroutine, which calls Answer.
	Try func(l transport.Loop, q *Request, body []byte) (status int, next transport.Loop)
	// Answer is called on a goroutine for a request with a body of known length, of at most 64 KB, and gets the value of
	// Check. It returns the status, and out with the body of the answer appended. If it has done nothing, it returns
	// status 0, and net/http gets the request. For a status other than 0 and 200, the body is the text of the status;
	// 204 and 304 have none. The request and its body are valid until Answer returns. ctx has the values of the server's
	// BaseContext, and does not end with the connection.
	Answer func(ctx context.Context, q *Request, checked any, body, out []byte) (status int, answer []byte)
	// Check reports whether Try or Answer may be called. If not, net/http gets the request, and refuses it. Check is
	// called before the body has arrived, and must not block: on a loop before Try, on a goroutine before Answer, which
	// gets the value. So Answer goes by what Check found out, whatever has changed since. Nil: all requests pass.
	Check func(q *Request) (checked any, ok bool)
	// ContentType of the answers of Try and Answer with status 200, and of Deferred.Answer.
	ContentType string
	// Fields appends fields, each with its CR LF, to the head of the answers of Try and Answer, such as those of CORS.
	// Nil: none.
	Fields func(q *Request, head []byte) []byte
}

// Listen returns a listener for s.Serve on ln, whose connections are plaintext. a is the acceptor of the transports,
// or nil.
//
// If there is a route with Take or Try, ln is a *net.TCPListener or Sparing, the loops of a watch sockets, and the
// system is Linux, connections live on these loops until there is another request. Otherwise net/http gets the
// requests for routes with Take alone.
//
// ReadHeaderTimeout, ReadTimeout, IdleTimeout, WriteTimeout, MaxHeaderBytes, BaseContext and ErrorLog of s hold for
// routes, too; ConnContext and ConnState are not called for them. The value of http.LocalAddrContextKey is the
// address of ln. s must not be changed any more.
//
// Closing the listener closes ln and the connections that have no request under way.
func Listen(ln net.Listener, s *http.Server, a transport.Acceptor, list ...Route) *Listener {
	return listen(ln, s, nil, a, list)
}

// ListenTLS is Listen for connections with TLS; it is for s.Serve, too, not s.ServeTLS. s.TLSConfig has the
// certificates; ListenTLS sets its NextProtos as ServeTLS does.
//
// The listener does the handshakes, on loops if connections live there, else on goroutines; ReadHeaderTimeout bounds
// each. Connections that agree on HTTP/2, or do not speak TLS, go to net/http. Its requests have Request.TLS set.
func ListenTLS(ln net.Listener, s *http.Server, a transport.Acceptor, list ...Route) *Listener {
	config := s.TLSConfig.Clone()
	config.NextProtos = netio.NextProtos(config.NextProtos, s)
	// Records that begin small gain nothing for messages, and cost CPU if several share a record.
	config.DynamicRecordSizingDisabled = true
	s.TLSConfig = config.Clone() // net/http writes into it
	return listen(ln, s, config, a, list)
}

func listen(ln net.Listener, s *http.Server, config *tls.Config, a transport.Acceptor, list []Route) *Listener {
	var next func() transport.Loop
	if loops := nodeaccess.Of(a); loops != nil {
		next = loops.NextLoop
	}
	l := &Listener{
		Listener: ln, server: s, next: next,
		closing: make(chan struct{}), done: make(chan struct{}),
		intakes: make(map[transport.Loop]*intake), conns: make(map[*conn]struct{}), handshaking: make(map[*tls.Conn]struct{}),
	}
	l.arrived.L = &l.mu
	if config != nil {
		l.handshakes = newHandshakes(l, config)
	}
	for _, r := range list {
		switch {
		case !plainPath(r.Path): // net/http gets all requests
		default:
			if r.Take != nil || r.Try != nil {
				l.onLoops.add(r)
			}
			if r.Answer != nil {
				l.answers.add(r)
			}
		}
	}
	l.configure()
	sparing, ok := ln.(Sparing)
	if tcp, plain := ln.(*net.TCPListener); plain {
		sparing.TCPListener, ok = tcp, true
	}
	if ok && next != nil && len(l.onLoops) > 0 {
		l.acceptor, _ = netio.NewAcceptor(sparing.TCPListener) // else ln accepts
	}
	if l.acceptor != nil {
		l.spare.Reserve()
		go l.run(l.acceptSockets(sparing))
	} else {
		go l.run(l.acceptConn)
	}
	return l
}

func plainPath(path string) bool {
	u, err := url.ParseRequestURI(path)
	return err == nil && *u == url.URL{Path: path} && path[0] == '/'
}

func (l *Listener) configure() {
	s := l.server
	l.headTimeout = cmp.Or(s.ReadHeaderTimeout, s.ReadTimeout)
	l.idleTimeout = cmp.Or(s.IdleTimeout, s.ReadTimeout)
	l.bodyTimeout = cmp.Or(s.ReadTimeout, s.IdleTimeout)
	l.writeTimeout = s.WriteTimeout
	l.maxHead = cmp.Or(max(s.MaxHeaderBytes, 0), http.DefaultMaxHeaderBytes) + headSlack
	ctx := context.Background()
	if s.BaseContext != nil {
		ctx = context.WithoutCancel(s.BaseContext(l))
	}
	ctx = context.WithValue(ctx, http.ServerContextKey, s)
	l.ctx = context.WithValue(ctx, http.LocalAddrContextKey, l.Addr())
}
