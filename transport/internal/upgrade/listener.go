// Package upgrade keeps connections that change from HTTP to another protocol away
// from net/http: loops read and answer their first request. It leaves everything
// else, to the last byte, to net/http.
package upgrade

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
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

// Config of a listener.
type Config struct {
	// Server is who serves what comes out of Accept. Its Handler is called by loops
	// for the requests that they read, and must not block. ReadHeaderTimeout (else
	// ReadTimeout), MaxHeaderBytes, BaseContext and ErrorLog hold for those, too.
	Server *http.Server
	// Next is the loop for the next connection, nil for net/http.
	Next func() transport.Loop
	// Protocol is what the requests that loops read ask for in the field Upgrade,
	// and Paths their paths, literally. They are GET requests of HTTP/1.1 without
	// a body, and valid beyond doubt.
	Protocol string
	Paths    []string
	// Owner is who may take these connections, see Behind.
	Owner any
	// Direct, if set, is asked before Server.Handler, and may take the connection.
	Direct func(a *Arrival)
}

// New returns a listener on ln, which it closes. Closing it also closes the
// connections whose first request is not complete. An error says that the system
// lacks what is needed.
func New(ln *net.TCPListener, cfg Config) (net.Listener, error) {
	acceptor, err := netio.NewAcceptor(ln)
	if err != nil {
		return nil, err
	}
	l := &listener{
		Listener: ln, acceptor: acceptor, cfg: cfg, server: cfg.Server,
		closing: make(chan struct{}), done: make(chan struct{}), intakes: make(map[transport.Loop]*intake),
	}
	l.arrived.L = &l.mu
	for _, p := range cfg.Paths {
		if plainPath(p) { // else net/http has to say what it is
			l.prefixes = append(l.prefixes, "GET "+p)
		}
	}
	l.configure()
	l.keepSpare()
	go l.run()
	return l, nil
}

// listener is what New returns.
type listener struct {
	net.Listener
	acceptor *netio.Acceptor
	cfg      Config
	server   *http.Server
	prefixes []string        // what requests begin with that loops answer
	ctx      context.Context // of all such requests
	serve    http.Handler
	timeout  time.Duration // to send the head of the first request; 0: none
	maxHead  int           // bytes

	spareMu sync.Mutex
	spare   *os.File // a descriptor for convert; nil if there was none
	spared  bool     // none is needed any more

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
		loop := l.cfg.Next()
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
		c, err := l.convert(h)
		if err == nil {
			return c, nil
		}
		if isShort(err) {
			l.putBack(h)
			return nil, err
		}
		l.logf("http: Accept error: %v; the connection is closed", err)
		h.Close()
	}
}

// isShort reports whether err is for the lack of something.
func isShort(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Temporary() //nolint:staticcheck // it is what net/http goes by
}

// convert makes a connection of h. That takes another descriptor for a moment, which
// has to be kept back: connections that wait for one would hold all the others, and
// those of clients that have left could not even be closed.
func (l *listener) convert(h *netio.Handover) (net.Conn, error) {
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	c, err := h.Conn()
	if err != nil && l.spare != nil && isShort(err) {
		_ = l.spare.Close()
		l.spare = nil
		c, err = h.Conn()
	}
	l.keepSpare()
	return c, err
}

// keepSpare is called with the lock held. Without a spare descriptor there is nothing to
// fall back on, which is no reason to stop.
func (l *listener) keepSpare() {
	if l.spare == nil && !l.spared {
		l.spare, _ = os.Open(os.DevNull)
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
	l.spareMu.Lock()
	defer l.spareMu.Unlock()
	l.spared = true
	if l.spare != nil {
		_ = l.spare.Close()
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
