package websocket

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

const (
	// acceptBatch is how many connections are accepted before they are handed on.
	acceptBatch = 64
	// maxPause is the longest pause after failing to accept; the first one is
	// minPause, as in net/http.
	minPause, maxPause = 5 * time.Millisecond, time.Second
)

// NewListener returns a listener for s.Serve that keeps WebSocket clients away from
// net/http: their handshakes are read and answered by the loops of h's acceptor,
// and no goroutine and no buffer is ever made for them. All other connections, to
// the last byte, come out of Accept.
//
// The handshakes meant are requests of HTTP/1.1 for one of paths, which are compared
// literally, with "GET" and "Upgrade: websocket", that are valid and have no body.
// s.Handler serves them on a loop: it must not block, and must pass them on to h.
// Its ResponseWriter offers nothing but what http.ResponseWriter has. When it
// answers anything but 101, net/http goes on with the connection.
//
// ReadHeaderTimeout (else ReadTimeout), MaxHeaderBytes, BaseContext and ErrorLog of s
// hold for those handshakes too; ConnContext and ConnState are not called. The
// value of http.LocalAddrContextKey is the address of ln. s must not be changed
// any more.
//
// Closing the listener closes ln and the connections whose first request is not
// complete.
//
// The listener is ln itself if h's acceptor has no loops, or ln is not a
// *net.TCPListener or the system lacks what is needed. While NextLoop of the
// acceptor is nil, all connections come out of Accept.
func NewListener(ln net.Listener, s *http.Server, h *Handler, paths ...string) net.Listener {
	loops, ok := h.acceptor.(transport.LoopAcceptor)
	tcp, isTCP := ln.(*net.TCPListener)
	if !ok || !isTCP {
		return ln
	}
	acceptor, err := netio.NewAcceptor(tcp)
	if err != nil {
		return ln
	}
	l := &listener{
		Listener: ln, acceptor: acceptor, loops: loops, server: s, handler: h,
		closing: make(chan struct{}), done: make(chan struct{}), intakes: make(map[transport.Loop]*intake),
	}
	l.arrived.L = &l.mu
	for _, p := range paths {
		l.prefixes = append(l.prefixes, "GET "+p)
	}
	l.configure()
	go l.run()
	return l
}

// listener is what NewListener returns.
type listener struct {
	net.Listener
	acceptor *netio.Acceptor
	loops    transport.LoopAcceptor
	server   *http.Server
	handler  *Handler
	prefixes []string        // what requests begin with that loops answer
	ctx      context.Context // of all such requests
	serve    http.Handler
	timeout  time.Duration // to send the head of the first request; 0: none
	maxHead  int           // bytes

	closing chan struct{}
	done    chan struct{} // run has ended
	// intakes belong to run, then to Close.
	intakes map[transport.Loop]*intake

	mu      sync.Mutex
	arrived sync.Cond // others grew, or closed
	others  []*netio.Handover
	closed  bool
}

// configure takes over what s says, with the defaults of net/http.
func (l *listener) configure() {
	s := l.server
	l.serve = s.Handler
	if l.serve == nil {
		l.serve = http.DefaultServeMux
	}
	l.timeout = s.ReadHeaderTimeout
	if l.timeout == 0 {
		l.timeout = s.ReadTimeout
	}
	l.maxHead = s.MaxHeaderBytes
	if l.maxHead <= 0 {
		l.maxHead = http.DefaultMaxHeaderBytes
	}
	ctx := context.Background()
	if s.BaseContext != nil {
		ctx = context.WithoutCancel(s.BaseContext(l))
	}
	ctx = context.WithValue(ctx, http.ServerContextKey, s)
	l.ctx = context.WithValue(ctx, http.LocalAddrContextKey, l.Addr())
}

// run accepts until Close.
func (l *listener) run() {
	defer close(l.done)
	batch := make([]netio.Socket, acceptBatch)
	var pause time.Duration
	for {
		n, err := l.acceptor.Accept(batch)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // descriptors or memory are short: others may give some back
			pause = min(max(2*pause, minPause), maxPause)
			l.logf("http: Accept error: %v; retrying in %v", &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: err}, pause)
			select {
			case <-time.After(pause):
			case <-l.closing:
			}
			continue
		}
		pause = 0
		l.distribute(batch[:n])
	}
}

// distribute gives new connections to loops.
func (l *listener) distribute(batch []netio.Socket) {
	for _, s := range batch {
		loop := l.loops.NextLoop()
		if loop == nil {
			l.handOver(netio.NewHandover(s, nil))
			continue
		}
		in := l.intakes[loop]
		if in == nil {
			in = newIntake(l, loop)
			l.intakes[loop] = in
		}
		in.arriving = append(in.arriving, s)
	}
	for _, in := range l.intakes {
		in.send()
	}
}

// handOver gives a connection to whoever calls Accept.
func (l *listener) handOver(h *netio.Handover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		h.Close()
		return
	}
	l.others = append(l.others, h)
	l.arrived.Signal()
}

// Accept implements net.Listener. A connection for which descriptors are short
// stays first in line.
func (l *listener) Accept() (net.Conn, error) {
	for {
		h, err := l.next()
		if err != nil {
			return nil, err
		}
		c, err := h.Conn()
		if err == nil {
			return c, nil
		}
		var t net.Error
		if errors.As(err, &t) && t.Temporary() { //nolint:staticcheck // it is what net/http goes by
			l.putBack(h)
			return nil, err
		}
		l.logf("http: Accept error: %v; the connection is closed", err)
		h.Close()
	}
}

func (l *listener) putBack(h *netio.Handover) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		h.Close()
		return
	}
	l.others = slices.Insert(l.others, 0, h)
}

func (l *listener) next() (*netio.Handover, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.others) == 0 {
		if l.closed {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		}
		l.arrived.Wait()
	}
	h := l.others[0]
	l.others[0] = nil
	if l.others = l.others[1:]; len(l.others) == 0 {
		l.others = nil
	}
	return h, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if !l.end() {
		return net.ErrClosed
	}
	close(l.closing)
	_ = l.acceptor.Close()
	err := l.Listener.Close()
	<-l.done
	for _, in := range l.intakes {
		in.close()
	}
	return err
}

// end closes the way to Accept, and what is on it. It reports false if that was
// done before.
func (l *listener) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	for _, h := range l.others {
		h.Close()
	}
	l.others = nil
	l.arrived.Broadcast()
	return true
}

func (l *listener) logf(format string, args ...any) {
	if l.server.ErrorLog != nil {
		l.server.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
