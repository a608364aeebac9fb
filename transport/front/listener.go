package front

import (
	"context"
	"crypto/tls"
	"log"
	"maps"
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
	// The pauses after failing to accept, as in net/http.
	minPause, maxPause = 5 * time.Millisecond, time.Second
)

// Listener is the front of an HTTP server, see Listen.
type Listener struct {
	net.Listener
	server   *http.Server
	acceptor *netio.Acceptor // nil: Listener accepts, and loops read nothing
	next     func() transport.Loop
	onLoops  routes          // routes with Take or Try
	answers  routes          // routes with Answer
	ctx      context.Context // of the requests for routes
	maxHead  int             // bytes
	// handshakes; nil: connections are plaintext.
	handshakes *handshakes
	// headTimeout bounds the time to complete a head, since the connection or the first byte of a later request,
	// bodyTimeout that for a body, idleTimeout that before a later request. 0: no limit.
	headTimeout, bodyTimeout, idleTimeout, writeTimeout time.Duration

	spare   netio.Spare
	closing chan struct{}
	done    chan struct{}  // run has ended
	serving sync.WaitGroup // counts conns and Deferreds

	mu      sync.Mutex
	intakes map[transport.Loop]*intake
	arrived sync.Cond // waiting grew, err was set, or the listener is closed
	waiting []*incoming
	err     error // the result of Accept if waiting is empty
	closed  bool
	conns   map[*conn]struct{}
	// handshaking are the connections of blockingHandshake.
	handshaking map[*tls.Conn]struct{}
}

func (l *Listener) run(accept func() error) {
	defer close(l.done)
	var pause time.Duration
	for {
		err := accept()
		switch {
		case err == nil:
			pause = 0
			continue
		case l.isClosing():
			return
		case !netio.IsShort(err):
			l.fail(err)
			return
		}
		pause = min(max(2*pause, minPause), maxPause)
		l.logf("http: Accept error: %v; retrying in %v", err, pause)
		select {
		case <-time.After(pause):
		case <-l.closing:
		}
	}
}

func (l *Listener) acceptConn() error {
	nc, err := l.Listener.Accept()
	if err == nil {
		l.passUnread(&incoming{conn: nc, remote: nc.RemoteAddr()})
	}
	return err
}

// shortage is an error of accept that net/http takes for temporary.
type shortage struct{ *net.OpError }

func (shortage) Temporary() bool { return true }

func (l *Listener) acceptSockets(sparing Sparing) func() error {
	batch := make([]netio.Socket, acceptBatch)
	var receiving []*intake
	return func() error {
		n, err := l.acceptor.Accept(batch)
		accepted := sparing.makeRoom(batch[:n])
		if err == nil && len(accepted) == 0 {
			err = errNoRoom
		}
		if err != nil {
			failure := &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: err}
			sparing.tried(failure)
			return shortage{failure}
		}
		sparing.tried(nil)
		for _, s := range accepted {
			loop := l.next()
			if loop == nil {
				l.passUnread(newIncoming(s, nil, false))
				continue
			}
			in := l.intake(loop)
			if len(in.arriving) == 0 {
				receiving = append(receiving, in)
			}
			in.arriving = append(in.arriving, s)
		}
		for _, in := range receiving {
			in.send()
		}
		receiving = receiving[:0]
		return nil
	}
}

func (l *Listener) intake(loop transport.Loop) *intake {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.intakes[loop]
	if in == nil {
		in = newIntake(l, loop)
		l.intakes[loop] = in
	}
	return in
}

func (l *Listener) passUnread(in *incoming) {
	if l.handshakes != nil {
		in.tls = netio.NewTLS(nil, l.handshakes.config)
	} else {
		in.mayAnswer = true
	}
	l.pass(in)
}

func (l *Listener) pass(in *incoming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		in.close()
		return
	}
	l.waiting = append(l.waiting, in)
	l.arrived.Signal()
}

func (l *Listener) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	l.arrived.Broadcast()
}

// Accept implements net.Listener. If there is no descriptor for a connection, the next call tries again.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		in, err := l.first()
		if err != nil {
			return nil, err
		}
		err = in.convert(&l.spare)
		if err == nil {
			in.secure()
		}
		switch {
		case err == nil && in.mayAnswer && len(l.answers) > 0:
			l.serve(in)
		case err == nil && !in.secured && in.unsecured():
			l.blockingHandshake(in)
		case err == nil:
			return netio.NewRequests(in.conn, in.remote, in.early, in.broken), nil
		case netio.IsShort(err):
			l.putBack(in)
			return nil, err
		default:
			l.logf("http: Accept error: %v; the connection is closed", err)
			in.close()
		}
	}
}

func (l *Listener) first() (*incoming, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 {
		if l.closed {
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		}
		if l.err != nil {
			return nil, l.err
		}
		l.arrived.Wait()
	}
	in := l.waiting[0]
	l.waiting[0] = nil
	if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return in, nil
}

func (l *Listener) putBack(in *incoming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		in.close()
		return
	}
	l.waiting = slices.Insert(l.waiting, 0, in)
}

func (l *Listener) serve(in *incoming) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		in.close()
		return
	}
	c := newConn(l, in)
	l.conns[c] = struct{}{}
	l.serving.Add(1)
	go c.serve()
}

// blockingHandshake does a handshake on a goroutine. net/http would do it as well, but read requests that no
// smuggling.Filter has checked. After an error net/http gets the same one, logs it, and answers plaintext.
func (l *Listener) blockingHandshake(in *incoming) {
	c := in.conn.(*tls.Conn)
	in.secured = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		in.close()
		return
	}
	l.handshaking[c] = struct{}{}
	l.serving.Go(func() {
		if l.headTimeout > 0 {
			_ = c.SetDeadline(time.Now().Add(l.headTimeout)) // if this fails, so does the handshake
		}
		if c.Handshake() == nil {
			_ = c.SetDeadline(time.Time{})
		}
		l.mu.Lock()
		delete(l.handshaking, c)
		l.mu.Unlock()
		l.pass(in)
	})
}

// beginServing counts a Deferred, unless the listener is closed.
func (l *Listener) beginServing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.serving.Add(1)
	}
	return !l.closed
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

// Close implements net.Listener. It closes connections without a request at once, others after their answers.
func (l *Listener) Close() error {
	if !l.end() {
		return net.ErrClosed
	}
	if l.acceptor != nil {
		_ = l.acceptor.Close()
	}
	err := l.Listener.Close()
	<-l.done
	l.mu.Lock()
	intakes := slices.Collect(maps.Values(l.intakes))
	l.mu.Unlock()
	for _, in := range intakes {
		in.close()
	}
	l.spare.Release()
	return err
}

// end is Close without waiting. False: it was done before.
func (l *Listener) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	close(l.closing)
	for _, in := range l.waiting {
		in.close()
	}
	l.waiting = nil
	for c := range l.conns {
		c.closeIdle()
	}
	for c := range l.handshaking {
		_ = c.NetConn().Close() // Close would wait for the handshake
	}
	l.arrived.Broadcast()
	return true
}

// Wait waits, after Close, until all requests to routes with Answer, and all deferred ones, are answered. If ctx ends
// earlier, it closes the connections of routes with Answer and returns the error of ctx.
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

func (l *Listener) logf(format string, args ...any) {
	if l.server.ErrorLog != nil {
		l.server.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
