package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gyrohq/gyro/server/api"
)

// Listener answers the publish and broadcast requests of backends that keep their
// connections, as long as they are small and as usual clients write them: most of
// what a publish costs by way of net/http is net/http. Everything else, such as a
// wrong key, malformed JSON or another method, is left to the server that accepts
// from it, with the connection and every byte of the request: it answers as if
// there were no Listener.
//
// Requests that it answers do not pass the server's Handler, and their contexts do
// not end with the connection.
type Listener struct {
	net.Listener
	handler *Handler
	methods map[string]api.Method // by path
	// first is how long a new connection has to complete the head of its first
	// request, and any to complete one that it began; idle how long the pause before
	// it, and then the body, may take; write the same for an answer. 0: no limit.
	first, idle, write time.Duration

	ctx     context.Context // of requests
	out     chan accepted
	closing chan struct{}
	serving sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[*conn]struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

// Listen returns a Listener on ln, whose connections are plaintext. The timeouts,
// and the context of requests, are those of s. After closing it, as s.Shutdown
// does, Wait waits for the requests that it answers.
func (h *Handler) Listen(ln net.Listener, s *http.Server) *Listener {
	l := &Listener{
		Listener: ln, handler: h, methods: make(map[string]api.Method), ctx: context.Background(),
		first: s.ReadHeaderTimeout, idle: s.IdleTimeout, write: s.WriteTimeout,
		out: make(chan accepted), closing: make(chan struct{}), conns: make(map[*conn]struct{}),
	}
	if s.BaseContext != nil {
		l.ctx = s.BaseContext(ln)
	}
	if l.first == 0 {
		l.first = s.ReadTimeout
	}
	if l.idle == 0 {
		l.idle = s.ReadTimeout
	}
	if !h.transport { // in which errors have statuses of their own
		for _, m := range []api.Method{api.MethodPublish, api.MethodBroadcast} {
			l.methods[h.path(m)] = m
		}
	}
	go l.run()
	return l
}

// run accepts until Close.
func (l *Listener) run() {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			// The server decides whether to go on, and how soon.
			if !l.pass(nil, err) {
				return
			}
			continue
		}
		c := &conn{Conn: nc, listener: l}
		if !l.add(c) {
			_ = nc.Close()
			continue
		}
		go c.serve()
	}
}

// pass hands something to Accept; false after Close.
func (l *Listener) pass(c net.Conn, err error) bool {
	select {
	case l.out <- accepted{c, err}:
		return true
	case <-l.closing:
		return false
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.out:
		return a.conn, a.err
	case <-l.closing:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

func (l *Listener) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.conns[c] = struct{}{}
	l.serving.Add(1)
	return true
}

func (l *Listener) remove(c *conn) {
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
	l.serving.Done()
}

func (l *Listener) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Close implements net.Listener. It also closes the connections that have no
// request under way; the others follow when they have their answers.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	close(l.closing)
	for c := range l.conns {
		c.closeIdle()
	}
	return l.Listener.Close()
}

// Wait waits, after Close, until all requests are answered. When ctx ends earlier,
// it cuts their connections and returns the error of ctx.
func (l *Listener) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serving.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
	return ctx.Err()
}

// replay is a connection some bytes of which were read before. Like net/http, it
// knows one reader at a time.
type replay struct {
	net.Conn
	early []byte
}

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.early) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.early)
	if r.early = r.early[n:]; len(r.early) == 0 {
		r.early = nil
	}
	return n, nil
}

// Bare lets who takes the connection from the server, as WebSocket does, have it as it
// came; nil while there are bytes that only Read returns.
func (r *replay) Bare() net.Conn {
	if len(r.early) > 0 {
		return nil
	}
	return r.Conn
}

// CloseWrite lets net/http close gently.
func (r *replay) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
