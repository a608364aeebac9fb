package webtransport

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"
	"golang.org/x/time/rate"

	"github.com/gyrohq/gyro/transport/front"
)

// Bounds of each QUIC connection.
const (
	// maxStreams is how many requests, or streams of a session, a client may have.
	maxStreams = 100
	// maxUniStreams is how many unidirectional streams a client may have. HTTP/3 needs three, browsers open one or two
	// more.
	maxUniStreams = 16
	// These bound the received bytes that wait for the program.
	streamWindow, maxStreamWindow = 128 << 10, 1 << 20
	connWindow, maxConnWindow     = 192 << 10, 2 << 20
	// maxIdle is how many connections may be without a request. Each holds some 30 KB. Above it, the one that has been
	// without a request longest is closed.
	maxIdle = 4096
	// maxUnfinished is how many handshakes may wait for the rest of their first message. Further ones are refused.
	// quic-go gives each 5 s without a packet.
	maxUnfinished = 1024
	// silence is how long a client may send nothing. keepAlive is less than the time after which many firewalls and load
	// balancers forget a path of UDP.
	silence   = 30 * time.Second
	keepAlive = 15 * time.Second
)

// freeHandshakes begin in a second without a proof of the client's address, which costs all others a round trip.
const freeHandshakes = 200

// Server serves the requests of an http.Server over HTTP/3, and the sessions of Handlers. Its
// methods may be called from any goroutine.
type Server struct {
	of       *http.Server
	handler  http.Handler
	idle     time.Duration
	conn     net.PacketConn
	quic     *quic.Transport
	listener *quic.EarlyListener
	sessions *wt.Server

	mu      sync.Mutex
	conns   map[*connection]struct{}
	idles   list.List // of connections without a request, the one that has been longest is the first
	maxIdle int
	// unfinished handshakes wait for the rest of their first message.
	unfinished, maxUnfinished int

	closing bool
	closed  func() error  // closes everything, once
	drained chan struct{} // closed once closing is true and conns is empty
}

// Listen returns a server for s.Handler on conn, which it owns from now on.
//
// Handler, TLSConfig, ReadTimeout, WriteTimeout, IdleTimeout, MaxHeaderBytes and ErrorLog of s are taken over as they
// are now; a tls.Config can go on choosing certificates in its functions. Timeouts hold for each request, after its
// head; handlers of long requests lift them by http.ResponseController. A connection without a request is closed
// after IdleTimeout (if that is 0, ReadTimeout; if that is 0, 30 s). Bytes before the end of a handshake (0-RTT) are
// not accepted, because others could send them again.
func Listen(conn *net.UDPConn, s *http.Server) (*Server, error) { return listen(conn, s) }

func listen(conn net.PacketConn, s *http.Server) (*Server, error) {
	if s.TLSConfig == nil {
		return nil, errors.New("http3: http.Server.TLSConfig is not set")
	}
	server := &Server{
		of: s, handler: s.Handler, conn: conn, idle: cmp.Or(s.IdleTimeout, s.ReadTimeout, 30*time.Second),
		conns: make(map[*connection]struct{}), drained: make(chan struct{}), maxIdle: maxIdle, maxUnfinished: maxUnfinished,
	}
	if server.handler == nil {
		server.handler = http.DefaultServeMux
	}
	limiter := rate.NewLimiter(freeHandshakes, freeHandshakes)
	server.quic = &quic.Transport{
		Conn: conn, VerifySourceAddress: func(net.Addr) bool { return !limiter.Allow() }, ConnContext: server.countHandshake,
	}
	server.sessions = &wt.Server{
		H3: &http3.Server{
			Handler: http.HandlerFunc(server.serve), MaxHeaderBytes: s.MaxHeaderBytes, EnableDatagrams: true,
			ConnContext: server.newConnection,
			Logger:      slog.New(slog.DiscardHandler), // important lines go to s.ErrorLog
		},
		CheckOrigin: func(*http.Request) bool { return true }, // the Handler has checked it
	}
	quiet := hushBufferWarning()
	listener, err := server.quic.ListenEarly(http3.ConfigureTLSConfig(s.TLSConfig), &quic.Config{
		MaxIncomingStreams: maxStreams, MaxIncomingUniStreams: maxUniStreams,
		InitialStreamReceiveWindow: streamWindow, MaxStreamReceiveWindow: maxStreamWindow,
		InitialConnectionReceiveWindow: connWindow, MaxConnectionReceiveWindow: maxConnWindow,
		MaxIdleTimeout: silence, KeepAlivePeriod: keepAlive,
		EnableDatagrams: true, EnableStreamResetPartialDelivery: true, // WebTransport needs them
	})
	if err != nil {
		return nil, fmt.Errorf("http3: %w", errors.Join(err, conn.Close()))
	}
	server.listener = listener
	server.closed = sync.OnceValue(func() error {
		return errors.Join(listener.Close(), server.sessions.Close(), server.quic.Close(), conn.Close())
	})
	if quiet {
		server.warnOfBuffer()
	}
	return server, nil
}

// Addr returns the address of the UDP socket.
func (s *Server) Addr() net.Addr { return s.conn.LocalAddr() }

// Serve accepts connections until Shutdown or Close, and returns http.ErrServerClosed then.
func (s *Server) Serve() error {
	for {
		c, err := s.listener.Accept(context.Background())
		if errors.Is(err, quic.ErrServerClosed) {
			return http.ErrServerClosed
		}
		if err != nil {
			return fmt.Errorf("http3: %w", err)
		}
		go func() {
			if err := s.sessions.ServeQUICConn(c); err != nil && !errors.Is(err, http.ErrServerClosed) {
				s.logf("http3: connection of %s: %v", c.RemoteAddr(), err)
			}
		}()
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if s.isClosing() {
		reject(w)
		return
	}
	c := connectionOf(r.Context())
	c.begin()
	defer c.end()
	defer func() {
		if p := recover(); p != nil {
			if err, _ := p.(error); !errors.Is(err, http.ErrAbortHandler) {
				s.logf("http: panic serving %s: %v\n%s", r.RemoteAddr, p, debug.Stack())
			}
			panic(http.ErrAbortHandler) // resets the stream
		}
	}()
	control, now := http.NewResponseController(w), time.Now()
	if t := s.of.ReadTimeout; t > 0 {
		_ = control.SetReadDeadline(now.Add(t))
	}
	if t := s.of.WriteTimeout; t > 0 {
		_ = control.SetWriteDeadline(now.Add(t))
	}
	s.handler.ServeHTTP(w, r)
}

// reject resets a request with the code that lets the client send it again to another server.
func reject(w http.ResponseWriter) {
	const code = quic.StreamErrorCode(http3.ErrCodeRequestRejected)
	// HTTPStream writes a head of status 200, which could arrive before the reset. The deadline keeps it back.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	stream := w.(http3.HTTPStreamer).HTTPStream()
	stream.CancelRead(code)
	stream.CancelWrite(code)
}

// Shutdown accepts no more connections and requests, waits until all requests are served and all sessions have ended,
// and closes everything. If ctx ends before, it cuts off the rest and returns its error. Shutting down the node ends the
// sessions.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.checkDrained()
	conns := make([]*connection, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	err := s.listener.Close()
	for _, c := range conns {
		c.closeSoon()
	}
	select {
	case <-s.drained:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return errors.Join(err, s.Close())
}

// Close closes all connections at once, and the UDP socket.
func (s *Server) Close() error { return s.closed() }

// Advertise returns a handler that tells the clients of next, which come over TCP, for a day, that there is HTTP/3 (RFC
// 7838) on the port of the request's Host field, which leads to the server from where the client is. A firewall or a
// load balancer must pass UDP packets on as it does TCP connections.
func (s *Server) Advertise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Alt-Svc", altSvc(r.Host))
		next.ServeHTTP(w, r)
	})
}

// AdvertiseRoutes does for routes of package front what Advertise does for handlers.
func (s *Server) AdvertiseRoutes(routes []front.Route) {
	for i := range routes {
		routes[i].Advertise = func(q *front.Request, head []byte) []byte {
			return append(append(append(head, "Alt-Svc: "...), altSvc(q.Host)...), "\r\n"...)
		}
	}
}

func altSvc(host string) string {
	port := "443"
	if _, p, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(p, 10, 16); err == nil {
			port = p
		}
	}
	return `h3=":` + port + `"; ma=86400`
}

func (s *Server) logf(format string, args ...any) {
	if s.of.ErrorLog != nil {
		s.of.ErrorLog.Printf(format, args...)
	} else {
		log.Printf(format, args...)
	}
}

// checkDrained is called under mu when conns or closing changes.
func (s *Server) checkDrained() {
	if !s.closing || len(s.conns) > 0 {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// connection is a QUIC connection. It is closed after a while without a request and a session; an incomplete request
// does not keep it.
type connection struct {
	server *Server
	quic   *quic.Conn

	element *list.Element // in server.idles, whose lock it has; nil: not there

	mu      sync.Mutex
	busy    int // requests and sessions
	lastEnd time.Time
	timer   *time.Timer // closes the connection; stopped while it is busy
}

// closeDelay is how long a connection stays after its last request during a shutdown: closing it drops bytes that the
// client has not received.
const closeDelay = 500 * time.Millisecond

type connectionKey struct{}

// connectionOf returns the connection of a request; nil if it was not to a Server.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

var errHandshakes = errors.New("too many unfinished handshakes")

type handshakeKey struct{}

// countHandshake is a hook for quic.Transport.ConnContext: a client has sent its first packet.
func (s *Server) countHandshake(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfinished >= s.maxUnfinished {
		return nil, errHandshakes
	}
	s.unfinished++
	arrived := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unfinished--
	})
	context.AfterFunc(ctx, arrived)
	return context.WithValue(ctx, handshakeKey{}, arrived), nil
}

func (s *Server) newConnection(ctx context.Context, q *quic.Conn) context.Context {
	if arrived, ok := q.Context().Value(handshakeKey{}).(func()); ok {
		arrived()
	}
	c := &connection{server: s, quic: q}
	s.mu.Lock()
	wait := s.idle
	if s.closing {
		wait = closeDelay
	}
	c.timer = time.AfterFunc(wait, c.closeIdle)
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	c.noRequest()
	context.AfterFunc(q.Context(), func() {
		c.timer.Stop()
		c.mu.Lock()
		s.setIdle(c, false)
		c.mu.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		s.checkDrained()
	})
	return context.WithValue(ctx, connectionKey{}, c)
}

func (c *connection) noRequest() {
	c.mu.Lock()
	var first *connection
	if c.busy == 0 && c.quic.Context().Err() == nil {
		first = c.server.setIdle(c, true)
	}
	c.mu.Unlock()
	if first != nil {
		first.closeIdle()
	}
}

// setIdle returns a connection to close if there are too many. The lock of the connection is held.
func (s *Server) setIdle(c *connection, idle bool) (first *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.element != nil {
		s.idles.Remove(c.element)
		c.element = nil
	}
	if idle {
		c.element = s.idles.PushBack(c)
		if s.idles.Len() > s.maxIdle {
			first = s.idles.Front().Value.(*connection)
		}
	}
	return first
}

func (c *connection) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy++; c.busy == 1 {
		c.server.setIdle(c, false)
	}
	c.timer.Stop()
}

func (c *connection) end() {
	defer c.noRequest()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy--; c.busy > 0 {
		return
	}
	c.lastEnd = time.Now()
	if c.server.isClosing() {
		c.timer.Reset(closeDelay)
	} else {
		c.timer.Reset(c.server.idle)
	}
}

func (c *connection) closeSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == 0 {
		c.timer.Reset(time.Until(c.lastEnd.Add(closeDelay)))
	}
}

func (c *connection) closeIdle() {
	c.mu.Lock()
	busy := c.busy > 0
	c.mu.Unlock()
	if !busy {
		_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	}
}
