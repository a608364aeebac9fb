//go:build unix

// Package drivertest runs an endpoint in four ways that must make no difference: alone, on loops, over TLS there, and
// with goroutines. Time is virtual.
package drivertest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Conn is a connection and the client at its other end.
type Conn interface {
	transport.Conn
	// Receive lets the client send data.
	Receive(data []byte)
	// Pass lets time pass.
	Pass(d time.Duration)
	// Leave makes the client close its socket.
	Leave()
	// Stall makes the client stop reading, or go on.
	Stall(stall bool)
	// WaitIdle waits until nothing happens any more. It returns the bytes that the client got, whether it saw the end of
	// the outgoing direction, and whether the connection is closed.
	WaitIdle() (got []byte, halfClosed, closed bool)
}

// Peer of a connection.
type Peer interface {
	transport.Peer
	// Began is called first, with the connection.
	Began(c transport.Conn)
}

type acceptor struct{ Peer }

func (a acceptor) Accept(_ context.Context, c transport.Conn, _ transport.Info) (transport.Peer, error) {
	a.Began(c)
	return a.Peer, nil
}

func (acceptor) NextLoop() transport.Loop { return nil }

func (a acceptor) AcceptOn(_ transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return a.Accept(ctx, c, info)
}

// Start makes the parts of one run: an endpoint, its peer, and the first message, nil for none.
type Start[E any] func() (e E, p Peer, message []byte)

type pointer[E any] interface {
	*E
	transport.Endpoint
}

// Way runs a connection in one way, and calls play with it.
type Way[E any] func(t *testing.T, start Start[E], play func(c Conn, p Peer))

// Ways returns all ways, by name. The first to ask is "alone".
func Ways[E any, P pointer[E]]() map[string]Way[E] {
	return map[string]Way[E]{"alone": alone[E, P], "loop": onFakeLoop[E, P], "TLS": onSecureLoop[E, P], "stream": onPipe[E, P]}
}

func alone[E any, P pointer[E]](_ *testing.T, start Start[E], play func(c Conn, p Peer)) {
	e, p, message := start()
	m := &model{endpoint: P(&e), peer: p}
	p.Began(m)
	m.apply(m.endpoint.Begin())
	if message != nil && m.end == transport.EndNone {
		p.Receive(message)
	}
	play(m, p)
}

// model is the least that a driver must be: no socket, no clock, and a client that takes everything at once.
type model struct {
	endpoint  transport.Endpoint
	peer      Peer
	unread    []byte
	out       []byte
	end       transport.End
	left      bool // the client has gone
	broke     bool // which a write has found out
	over      bool
	paused    bool
	wasPaused bool
	told      bool
	cause     error

	now, tickAt, endAt time.Duration // 0: not due

	// Of a client that does not read: it takes a frame and no more.
	stalled, congested, wroteShort bool
	queued, delayed                []byte
}

func (m *model) Receive(data []byte) {
	m.unread = append(m.unread, data...)
	m.goOn()
}

func (m *model) goOn() {
	for m.end <= transport.EndAwait && !m.over && (!m.paused || m.broke || m.end != transport.EndNone) {
		var found transport.Found
		var message []byte
		found, message, m.unread = m.endpoint.Next(m.unread)
		if found == transport.FoundNothing {
			break
		}
		if found == transport.FoundControl {
			m.apply(m.endpoint.Control())
		} else if m.end == transport.EndNone {
			m.peer.Receive(message)
		}
	}
	m.apply(m.endpoint.Rest())
}

func (m *model) apply(s transport.Step) {
	switch {
	case m.over || s.End == transport.EndNone && m.end != transport.EndNone:
		return
	case s.Tick > 0:
		m.tickAt = m.now + s.Tick
	}
	if s.End == transport.EndNone && m.congested {
		if s.Write != nil {
			m.delayed = s.Write
		}
		return
	}
	m.put(s.Write)
	if s.End == transport.EndNone {
		return
	}
	if m.end == transport.EndNone && !m.broke {
		m.cause = s.Cause
	}
	m.end, m.tickAt = s.End, 0
	if m.end == transport.EndLinger {
		m.tell()
	}
	m.drained()
}

func (m *model) put(b []byte) {
	switch {
	case m.left || len(b) == 0:
	case !m.stalled:
		m.out = append(m.out, b...)
	default:
		m.queued = append(m.queued, b...)
		if !m.congested {
			m.congested, m.endAt = true, m.now+m.endpoint.Timeouts().Write
		}
	}
}

func (m *model) drained() {
	switch {
	case m.congested:
	case m.end == transport.EndCut:
		m.finish()
	case m.end == transport.EndAwait:
		m.endAt = m.now + m.endpoint.Timeouts().Await
	case m.end != transport.EndNone:
		m.endAt = m.now + m.endpoint.Timeouts().Close
	}
}

func (m *model) Stall(stall bool) {
	if m.stalled = stall; stall || !m.congested {
		return
	}
	m.out = append(m.out, m.queued...)
	m.queued, m.congested, m.endAt = nil, false, 0
	if m.end == transport.EndNone {
		m.put(m.delayed)
		if m.wroteShort {
			m.peer.Writable()
		}
	}
	m.delayed, m.wroteShort = nil, false
	m.drained()
}

func (m *model) tell() {
	if !m.told {
		m.told = true
		m.peer.Closed(m.cause)
	}
}

func (m *model) finish() {
	if !m.over {
		m.over, m.tickAt, m.endAt = true, 0, 0
		m.endpoint.Release()
		m.tell()
	}
}

func (m *model) Pass(d time.Duration) {
	for until := m.now + d; ; {
		next := until
		for _, at := range []time.Duration{m.tickAt, m.endAt} {
			if at > 0 && at < next {
				next = at
			}
		}
		m.now = next
		switch {
		case m.over:
		case m.tickAt == m.now:
			wasPaused := m.wasPaused
			m.wasPaused = m.paused
			m.apply(m.endpoint.Tick(m.congested, wasPaused))
			continue
		case m.endAt == m.now && m.end == transport.EndAwait && !m.congested:
			m.endAt = 0
			m.apply(m.endpoint.Overdue())
			continue
		case m.endAt == m.now:
			if m.congested && m.end == transport.EndNone {
				m.cause = protocol.DisconnectWriteError
			}
			m.finish()
		}
		if m.now == until {
			return
		}
	}
}

func (m *model) Leave() {
	m.left = true
	if m.paused && m.end == transport.EndNone {
		return // it goes unnoticed
	}
	if m.cause == nil {
		m.cause = errors.New("connection lost")
	}
	m.finish()
}

func (m *model) Write(frames [][]byte) (n int, err error) {
	if m.left && !m.over { // bytes that the client sent before are there yet
		m.broke, m.cause = true, protocol.DisconnectWriteError
		m.goOn()
		m.finish()
	}
	if m.over || m.end != transport.EndNone {
		return 0, net.ErrClosed
	}
	for _, f := range frames {
		if m.congested {
			m.wroteShort = true
			break
		}
		m.put(f)
		n += len(f)
	}
	return n, nil
}

func (m *model) Close(d protocol.Disconnect, frames [][]byte) {
	switch {
	case m.over || m.end != transport.EndNone:
	case d.Code == protocol.DisconnectConnectionClosed.Code:
		m.cause = d
		m.finish()
	default:
		m.put(slices.Concat(frames...))
		m.apply(m.endpoint.Close(d))
		m.goOn()
	}
}

func (m *model) Pause(pause bool) {
	m.paused = pause
	m.wasPaused = m.wasPaused || pause
	if !pause {
		m.goOn()
	}
}

func (m *model) WaitIdle() ([]byte, bool, bool) {
	return m.out, m.end == transport.EndLinger && !m.congested, m.over
}

// onFakeLoop uses the driver on loops, with a socket, and a loop in virtual time.
func onFakeLoop[E any, P pointer[E]](t *testing.T, start Start[E], play func(c Conn, p Peer)) {
	onLoop[E, P](t, start, play, false)
}

func onSecureLoop[E any, P pointer[E]](t *testing.T, start Start[E], play func(c Conn, p Peer)) {
	onLoop[E, P](t, start, play, true)
}

func onLoop[E any, P pointer[E]](t *testing.T, start Start[E], play func(c Conn, p Peer), secure bool) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		_ = syscall.SetNonblock(fd, true)
	}
	l := &fakeLoop{t: t, client: fds[1], buffer: make([]byte, 64<<10)}
	defer func() {
		if l.watcher != nil {
			l.watcher.Ended()
		}
		l.Leave()
	}()
	e, p, message := start()
	conn := driver.NewLoopConn[E, P](l, uintptr(fds[0]), e)
	l.Conn = conn
	candidate := driver.Candidate{Ctx: context.Background(), Message: message}
	if secure {
		candidate.TLS = l.secure()
	}
	conn.Start(acceptor{p}, candidate)
	play(l, p)
}

func (l *fakeLoop) secure() *netio.TLS {
	server, client := net.Pipe()
	l.sealed.Conn = client
	l.tls = tls.Client(&l.sealed, &tls.Config{InsecureSkipVerify: true})
	end := netio.NewTLS(server, serverTLS)
	failed := make(chan error, 1)
	go func() { failed <- l.tls.Handshake() }()
	if err := errors.Join(end.Conn().Handshake(), <-failed); err != nil {
		l.t.Fatal(err)
	}
	l.sealed.Conn = nil
	return end
}

// serverTLS has no tickets, because the test client would not read them.
var serverTLS = func() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true}
}()

// sealed is the net.Conn beneath a client's TLS: a pipe during the handshake, then bytes in memory.
type sealed struct {
	net.Conn
	in, out bytes.Buffer
}

func (s *sealed) Read(p []byte) (int, error) {
	switch {
	case s.Conn != nil:
		return s.Conn.Read(p)
	case s.in.Len() == 0:
		return 0, syscall.EAGAIN // is temporary
	}
	return s.in.Read(p)
}

func (s *sealed) Write(p []byte) (int, error) {
	if s.Conn != nil {
		return s.Conn.Write(p)
	}
	return s.out.Write(p)
}

func (l *fakeLoop) decrypted(p []byte) (plain []byte) {
	if l.tls == nil {
		return p
	}
	l.sealed.in.Write(p)
	for {
		buf := make([]byte, 4096)
		n, err := l.tls.Read(buf)
		plain = append(plain, buf[:n]...)
		if err != nil {
			return plain
		}
	}
}

type fakeLoop struct {
	transport.Conn
	t      *testing.T
	buffer []byte
	posts  []func()

	watcher     transport.Watcher
	read, write bool

	now    time.Duration
	timers []*fakeTimer

	client  int // 0: it has left
	stalled bool
	got     []byte
	ended   bool // the client saw the end

	tls    *tls.Conn // of the client; nil: plaintext
	sealed sealed
}

type fakeTimer struct {
	loop *fakeLoop
	at   time.Duration
	f    func()
}

func (l *fakeLoop) Post(f func()) bool { l.posts = append(l.posts, f); return true }

func (l *fakeLoop) Watch(_ int, w transport.Watcher, read, write bool) error {
	l.watcher, l.read, l.write = w, read, write
	return nil
}

func (l *fakeLoop) Change(_ int, read, write bool) error {
	if l.watcher == nil {
		l.t.Error("Change of a socket that is not watched")
	}
	l.read, l.write = read, write
	return nil
}

func (l *fakeLoop) Unwatch(int)    { l.watcher = nil }
func (l *fakeLoop) Forget(int)     { l.watcher = nil }
func (l *fakeLoop) Buffer() []byte { return l.buffer }

func (l *fakeLoop) After(d time.Duration, f func()) transport.Timer {
	timer := &fakeTimer{l, l.now + d, f}
	l.timers = append(l.timers, timer)
	return timer
}

func (t *fakeTimer) Stop() {
	t.loop.timers = slices.DeleteFunc(t.loop.timers, func(other *fakeTimer) bool { return other == t })
}

func (l *fakeLoop) Receive(data []byte) {
	if l.tls != nil {
		_, _ = l.tls.Write(data)
		data = l.sealed.out.Next(l.sealed.out.Len())
	}
	if n, err := netio.TryWrite(uintptr(l.client), [][]byte{data}); n < len(data) && l.watcher != nil {
		l.t.Fatalf("the client sent %d of %d bytes: %v", n, len(data), err)
	}
}

func (l *fakeLoop) Leave() {
	if l.client > 0 {
		netio.CloseFD(uintptr(l.client), false)
		l.client = 0
	}
}

func (l *fakeLoop) Stall(stall bool) { l.stalled = stall }

func (l *fakeLoop) Pass(d time.Duration) {
	for until := l.now + d; ; l.WaitIdle() {
		var due *fakeTimer
		for _, timer := range l.timers {
			if timer.at <= until && (due == nil || timer.at < due.at) {
				due = timer
			}
		}
		if due == nil {
			l.now = until
			return
		}
		l.now = due.at
		due.Stop()
		due.f()
	}
}

func (l *fakeLoop) WaitIdle() (got []byte, halfClosed, closed bool) {
	buf := make([]byte, 4096)
	for idle := 0; idle < 3; idle++ {
		posts := l.posts
		l.posts = nil
		for _, f := range posts {
			idle = 0
			f()
		}
		if w := l.watcher; w != nil {
			w.Ready(l.read, l.write)
		}
		for l.client > 0 && !l.stalled && !l.ended {
			n, err := netio.TryRead(uintptr(l.client), buf)
			l.got = append(l.got, l.decrypted(buf[:n])...)
			l.ended = err != nil
			if n == 0 {
				break
			}
			idle = 0
		}
	}
	return l.got, l.ended, l.watcher == nil
}

// onPipe uses the driver with goroutines, in virtual time.
func onPipe[E any, P pointer[E]](t *testing.T, start Start[E], play func(c Conn, p Peer)) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		o := &outlet{Conn: server}
		e, p, message := start()
		conn := driver.NewStreamConn[E, P](netio.NewStream(o), e)
		end := &pipeEnd{Conn: conn, outlet: o, client: client, sent: make(chan []byte, 1000)}
		go end.write()
		go end.read()
		conn.Serve(acceptor{p}, driver.Candidate{Ctx: context.Background(), Message: message}, true)
		play(end, p)
		conn.Close(protocol.DisconnectConnectionClosed, nil)
		client.Close()
		end.Stall(false)
		close(end.sent)
	})
}

type outlet struct {
	net.Conn
	halfClosed, closed atomic.Bool
}

func (o *outlet) CloseWrite() error { o.halfClosed.Store(true); return nil }
func (o *outlet) Close() error      { o.closed.Store(true); return o.Conn.Close() }

type pipeEnd struct {
	transport.Conn
	outlet   *outlet
	client   net.Conn
	sent     chan []byte
	mu       sync.Mutex
	got      []byte
	readable chan struct{} // the client reads once it is closed; nil: now
}

func (e *pipeEnd) write() {
	for data := range e.sent {
		_, _ = e.client.Write(data)
	}
}

func (e *pipeEnd) read() {
	buf := make([]byte, 4096)
	for {
		n, err := e.client.Read(buf)
		e.mu.Lock()
		e.got = append(e.got, buf[:n]...)
		readable := e.readable
		e.mu.Unlock()
		if readable != nil {
			<-readable
		}
		if err != nil {
			return
		}
	}
}

func (e *pipeEnd) Stall(stall bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if stall {
		e.readable = make(chan struct{})
	} else if e.readable != nil {
		close(e.readable)
		e.readable = nil
	}
}

func (e *pipeEnd) Receive(data []byte)  { e.sent <- data }
func (e *pipeEnd) Pass(d time.Duration) { time.Sleep(d) }
func (e *pipeEnd) Leave()               { e.client.Close() }

func (e *pipeEnd) WaitIdle() ([]byte, bool, bool) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got, e.outlet.halfClosed.Load(), e.outlet.closed.Load()
}
