// Package front is where the connections of an HTTP server arrive. It reads the first
// request of each and gives it to the route that it is for: a transport that takes the
// connection on a loop, without a goroutine, or an endpoint that answers its small
// requests without net/http. All other connections, to the last byte, go to net/http.
//
// There is one reading of requests: routes get what is valid beyond doubt, net/http gets
// everything else, so that nothing is refused or understood by two rules. There is one gate
// per route for limits, origins, logs and metrics: a request passes it whoever reads it,
// see Gate.
//
//	h := websocket.NewHandler(node, websocket.Config{})
//	server := &http.Server{Handler: h}
//	err := server.Serve(front.Listen(ln, server, node, h.Route("/connection/websocket")))
package front

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gyrohq/gyro/internal/onloop"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Route is a fast way for the requests to one path, by Take or by Answer. They do not pass
// the server's Handler.
type Route struct {
	// Method and Path of the requests. The path is compared literally; a query may follow.
	Method, Path string
	// Upgrade is the protocol that the field Upgrade asks for; "": there is no such field.
	Upgrade string
	// Gate is what the requests pass; nil: nothing. Whoever serves the path by net/http
	// should wrap the handler with the same gate, see Wrap.
	Gate Gate

	// Take is called on a loop for a request without a body. It must not block. It may take
	// the connection, see Arrival.Take; if it does not, net/http gets the request.
	Take func(a *Arrival)

	// Answer is called on a goroutine for a request with a body of known length, of at most
	// 64 KB. It appends the body of the answer to out. Status 0 says that nothing was done:
	// net/http gets the request. The answer to a status other than 0 and 200 is the
	// status' own text. The request and its body are good until Answer returns. ctx has the
	// values of the server's BaseContext, and does not end with the connection.
	Answer func(ctx context.Context, q *Request, body, out []byte) (status int, answer []byte)
	// Check reports whether Answer may be called. It is asked before the body is awaited: if
	// it reports false, net/http gets the request.
	Check func(q *Request) bool
	// ContentType of the answers of Answer.
	ContentType string
}

// Listen returns a listener for s.Serve on ln, the connections of which are plaintext.
//
// Connections live on the loops of a, which is the transports' acceptor, until their first
// request is complete, if there is a route with Take, ln is a *net.TCPListener and the system
// has what is needed. Otherwise, and if a is nil or its loops watch no sockets, net/http gets
// the requests for such routes.
//
// ReadHeaderTimeout, ReadTimeout, IdleTimeout, WriteTimeout, MaxHeaderBytes, BaseContext
// and ErrorLog of s hold for the requests of routes as for others; ConnContext and ConnState
// are not called. The value of http.LocalAddrContextKey is the address of ln. s must not be
// changed any more.
//
// Closing the listener closes ln and the connections that have no request under way.
func Listen(ln net.Listener, s *http.Server, a transport.Acceptor, list ...Route) *Listener {
	var next func() transport.Loop
	if loops := onloop.Of(a); loops != nil {
		next = loops.NextLoop
	}
	l := &Listener{
		Listener: ln, server: s, next: next,
		closing: make(chan struct{}), done: make(chan struct{}),
		intakes: make(map[transport.Loop]*intake), conns: make(map[*conn]struct{}),
	}
	l.arrived.L = &l.mu
	for _, r := range list {
		switch {
		case !plainPath(r.Path): // net/http has to say what it is
		case r.Take != nil:
			l.takes.add(r)
		default:
			l.answers.add(r)
		}
	}
	l.configure()
	if tcp, ok := ln.(*net.TCPListener); ok && next != nil && len(l.takes) > 0 {
		l.acceptor, _ = netio.NewAcceptor(tcp) // else ln accepts
	}
	if l.acceptor != nil {
		l.spare.keep()
		go l.run(l.acceptSockets())
	} else {
		go l.run(l.acceptConn)
	}
	return l
}

// plainPath reports whether net/http understands a path of a target literally.
func plainPath(path string) bool {
	u, err := url.ParseRequestURI(path)
	return err == nil && *u == url.URL{Path: path} && path[0] == '/'
}

// configure takes over what the server says, with the defaults of net/http.
func (l *Listener) configure() {
	s := l.server
	l.headTimeout, l.idleTimeout, l.writeTimeout = s.ReadHeaderTimeout, s.IdleTimeout, s.WriteTimeout
	setDefault(&l.headTimeout, s.ReadTimeout)
	setDefault(&l.idleTimeout, s.ReadTimeout)
	l.maxHead = s.MaxHeaderBytes
	if l.maxHead <= 0 {
		l.maxHead = http.DefaultMaxHeaderBytes
	}
	l.maxHead += headSlack
	ctx := context.Background()
	if s.BaseContext != nil {
		ctx = context.WithoutCancel(s.BaseContext(l))
	}
	ctx = context.WithValue(ctx, http.ServerContextKey, s)
	l.ctx = context.WithValue(ctx, http.LocalAddrContextKey, l.Addr())
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}
