package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// stepLoop is a loop that does something only when the test says so.
type stepLoop struct {
	posts    chan func()
	watchers map[int]transport.Watcher
	newest   int // the descriptor that was watched last
	timers   []func()
	buffer   [64 << 10]byte
}

func newStepLoop() *stepLoop {
	return &stepLoop{posts: make(chan func(), 1000), watchers: make(map[int]transport.Watcher)}
}

type noTimer struct{}

func (noTimer) Stop() {}

func (l *stepLoop) Post(f func()) bool { l.posts <- f; return true }
func (l *stepLoop) Watch(fd int, w transport.Watcher, _, _ bool) error {
	l.watchers[fd], l.newest = w, fd
	return nil
}
func (l *stepLoop) Change(int, bool, bool) error { return nil }
func (l *stepLoop) Unwatch(fd int)               { delete(l.watchers, fd) }
func (l *stepLoop) Forget(fd int)                { delete(l.watchers, fd) }
func (l *stepLoop) After(_ time.Duration, f func()) transport.Timer {
	l.timers = append(l.timers, f)
	return noTimer{}
}
func (l *stepLoop) Buffer() []byte { return l.buffer[:] }

// ready lets all watchers read.
func (l *stepLoop) ready() {
	for _, w := range l.watchers {
		w.Ready(true, false)
	}
	l.run()
}

// readyOne lets one watcher read, if the descriptor has one.
func (l *stepLoop) readyOne(fd int) {
	if w := l.watchers[fd]; w != nil {
		w.Ready(true, false)
	}
	l.run()
}

// run calls the posted functions.
func (l *stepLoop) run() {
	for len(l.posts) > 0 {
		(<-l.posts)()
	}
}

// site is a front on a stepLoop with a route for requests of the protocol "test" at /ws.
type site struct {
	t     *testing.T
	loop  *stepLoop
	ln    *Listener
	taken chan change
	fds   map[net.Conn]int // the server's end of each connection
}

// change is a connection that changed its protocol.
type change struct{ early, path, remote, body string }

func newSite(t *testing.T, edit func(*http.Server)) *site {
	return newSiteOf(t, edit, Route{Method: http.MethodGet, Path: "/ws", Upgrade: "test"})
}

// newSiteOf is newSite with another route, whose Take it sets.
func newSiteOf(t *testing.T, edit func(*http.Server), r Route) *site {
	s := &site{t: t, loop: newStepLoop(), taken: make(chan change, 1000)}
	server := &http.Server{}
	if edit != nil {
		edit(server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Take = s.take
	s.ln = Listen(ln, server, watching{next: func() transport.Loop { return s.loop }}, r)
	t.Cleanup(func() {
		s.ln.Close()
		s.loop.ready()
	})
	if s.ln.acceptor == nil {
		t.Skip("loops watch no sockets here")
	}
	return s
}

const switching = "HTTP/1.1 101 Switching Protocols\r\n\r\n"

// take takes every connection.
func (s *site) take(a *Arrival) {
	if a.Take(http.StatusSwitchingProtocols, []byte(switching)) {
		a.Loop.Unwatch(int(a.FD))
		netio.CloseFD(a.FD, false)
		s.taken <- change{string(a.Early), a.Path, a.RemoteAddr, string(a.Body)}
	}
}

// open makes a connection that the loop has taken.
func (s *site) open() net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	(<-s.loop.posts)()
	if s.fds == nil {
		s.fds = make(map[net.Conn]int)
	}
	s.fds[nc] = s.loop.newest
	return nc
}

// send writes, and lets the loop read that.
func (s *site) send(nc net.Conn, data string) {
	s.t.Helper()
	_ = nc.SetDeadline(time.Now().Add(wait.Limit)) // from now on: a test may have opened a thousand others
	if _, err := io.WriteString(nc, data); err != nil {
		s.t.Fatal(err)
	}
	s.loop.readyOne(s.fds[nc])
}

// switched reads the answer of a connection that was taken.
func (s *site) switched(nc net.Conn) change {
	s.t.Helper()
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	if b, err := io.ReadAll(nc); err != nil || string(b) != switching {
		s.t.Fatalf("the client got %q, %v", b, err)
	}
	return <-s.taken
}

// request asks for the protocol.
func request(fields string) string {
	return "GET /ws?a=b HTTP/1.1\r\nHost: gyro.test\r\nConnection: Upgrade\r\nUpgrade: test\r\n" + fields + "\r\n"
}

// streams is a route for requests with a body.
var streams = Route{Method: http.MethodPost, Path: "/stream", MaxBody: 1 << 20}

func post(length int, body string) string {
	return fmt.Sprintf("POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

// watching is an acceptor that only knows loops, which is all that a listener needs.
type watching struct {
	transport.Acceptor
	next func() transport.Loop
}

func (w watching) NextLoop() transport.Loop { return w.next() }

func (w watching) AcceptOn(transport.Loop, context.Context, transport.Conn, transport.Info) (transport.Peer, error) {
	panic("a listener accepts no clients")
}
