package websocket

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/transport"
)

// stepLoop is a loop that does something only when the test says so.
type stepLoop struct {
	posts    chan func()
	watchers map[int]transport.Watcher
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
	l.watchers[fd] = w
	return nil
}
func (l *stepLoop) Change(int, bool, bool) error { return nil }
func (l *stepLoop) Unwatch(fd int)               { delete(l.watchers, fd) }
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
	for len(l.posts) > 0 {
		(<-l.posts)()
	}
}

// stepAcceptor puts all connections on one stepLoop.
type stepAcceptor struct {
	*testServer
	loop *stepLoop
}

func (a *stepAcceptor) NextLoop() transport.Loop { return a.loop }
func (a *stepAcceptor) AcceptOn(_ transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return a.accept(ctx, c, info, c)
}

// stepListener is a listener at /ws on a stepLoop.
func stepListener(t testing.TB, edit func(*http.Server)) (*stepAcceptor, *listener) {
	a := &stepAcceptor{&testServer{t: t, peers: make(chan *testPeer, 1000)}, newStepLoop()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHandler(a, Config{})
	s := &http.Server{Handler: h}
	if edit != nil {
		edit(s)
	}
	l := NewListener(ln, s, h, "/ws").(*listener)
	t.Cleanup(func() {
		l.Close()
		a.loop.ready()
	})
	return a, l
}

// open makes a connection that the loop has taken.
func (a *stepAcceptor) open(l net.Listener) net.Conn {
	a.t.Helper()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	await(a.t, "the connection", a.loop.posts)()
	return nc
}

// TestHandshakeSplit: it does not matter where the bytes of a handshake, and of what
// follows at once, are split.
func TestHandshakeSplit(t *testing.T) {
	needLoops(t)
	a, l := stepListener(t, nil)
	sent := []byte(request("gyro.test", "/ws?a=b", nil))
	sent = append(sent, masked(text("early"), text("more"))...)
	for i := 1; i < len(sent); i++ {
		nc := a.open(l)
		c := &testClient{t: t, nc: nc, r: bufio.NewReader(nc)}
		c.raw(sent[:i])
		a.loop.ready()
		c.raw(sent[i:])
		a.loop.ready()
		p := await(t, "a peer", a.peers)
		if p.message() != "early" || p.message() != "more" {
			t.Fatal("wrong messages")
		}
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("split at %d: %v %v", i, resp, err)
		}
		resp.Body.Close()
		c.send(closeFr(1000, ""))
		a.loop.ready()
		c.expect(closeFr(1000, ""))
		p.closedWith()
	}
	if len(a.loop.watchers) != 0 {
		t.Errorf("%d watchers are left", len(a.loop.watchers))
	}
}

// TestHandshakeTrickles: byte by byte, the head is searched once, and its bytes are
// counted until they are gone.
func TestHandshakeTrickles(t *testing.T) {
	needLoops(t)
	a, l := stepListener(t, nil)
	nc := a.open(l)
	in := l.intakes[a.loop]
	sent := request("gyro.test", "/ws", http.Header{"A": {strings.Repeat("x", 3000)}})
	for i := range len(sent) {
		if _, err := nc.Write([]byte{sent[i]}); err != nil {
			t.Fatal(err)
		}
		a.loop.ready()
		if i == 2000 && (in.held < 2000 || in.oldest.scanned != 2001) {
			t.Errorf("held %d, scanned %d", in.held, in.oldest.scanned)
		}
	}
	await(t, "a peer", a.peers)
	if in.held != 0 || in.oldest != nil || in.newest != nil {
		t.Errorf("held %d, %v, %v", in.held, in.oldest, in.newest)
	}
	nc.Close()
	a.loop.ready()
}

// TestForeignEarly: what cannot be a handshake is handed over with the first byte
// that says so.
func TestForeignEarly(t *testing.T) {
	needLoops(t)
	a, l := stepListener(t, nil)
	for _, sent := range []string{"P", "GET /wt", "GET /ws/", "GET  ", "\x16"} {
		nc := a.open(l)
		if _, err := io.WriteString(nc, sent[:len(sent)-1]); err != nil {
			t.Fatal(err)
		}
		a.loop.ready()
		if len(a.loop.watchers) != 1 {
			t.Errorf("%q was handed over too early", sent)
		}
		if _, err := io.WriteString(nc, sent[len(sent)-1:]); err != nil {
			t.Fatal(err)
		}
		a.loop.ready()
		if len(a.loop.watchers) != 0 {
			t.Fatalf("%q was not handed over", sent)
		}
		got, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		var b bytes.Buffer // by WriteTo
		if _, err := io.Copy(&b, got); err != nil || b.String() != sent {
			t.Errorf("got %q, %v, want %q", b.String(), err, sent)
		}
		got.Close()
	}
}

// TestTricklersAreBounded: clients that send much of a head and no end cannot make
// the server hold more than the limit.
func TestTricklersAreBounded(t *testing.T) {
	needLoops(t)
	a, l := stepListener(t, nil)
	part := []byte(request("gyro.test", "/ws", http.Header{"A": {strings.Repeat("x", 60000)}}))
	part = part[:len(part)-2]
	var conns []net.Conn
	for range maxHeld/(64<<10) + 10 {
		nc := a.open(l)
		conns = append(conns, nc)
		if _, err := nc.Write(part); err != nil {
			t.Fatal(err)
		}
		a.loop.ready()
	}
	in := l.intakes[a.loop]
	if in.held > maxHeld || in.held < maxHeld/2 {
		t.Errorf("holds %d bytes", in.held)
	}
	// The usual client is served all the same.
	nc := a.open(l)
	if _, err := io.WriteString(nc, request("gyro.test", "/ws", nil)); err != nil {
		t.Fatal(err)
	}
	a.loop.ready()
	if resp, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("the usual client got %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	conns = append(conns, nc)
	for _, nc := range conns {
		nc.Close()
	}
	a.loop.ready() // their ends: net/http is to answer
	if in.held != 0 {
		t.Errorf("holds %d bytes of nobody", in.held)
	}
}

// TestOneTimer: the connections of a loop share one, which goes on for as long as
// any of them waits.
func TestOneTimer(t *testing.T) {
	needLoops(t)
	a, l := stepListener(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	a.open(l)
	a.open(l)
	in := l.intakes[a.loop]
	expire := func() {
		f := a.loop.timers[0]
		a.loop.timers = nil
		f()
	}
	if len(a.loop.timers) != 1 {
		t.Fatalf("%d timers", len(a.loop.timers))
	}
	in.oldest.due = time.Now()
	if expire(); len(a.loop.watchers) != 1 || len(a.loop.timers) != 1 {
		t.Errorf("%d connections, %d timers", len(a.loop.watchers), len(a.loop.timers))
	}
	in.oldest.due = time.Now()
	if expire(); len(a.loop.watchers) != 0 || len(a.loop.timers) != 0 || in.timer != nil {
		t.Errorf("%d connections, %d timers", len(a.loop.watchers), len(a.loop.timers))
	}
	if a.open(l); len(a.loop.timers) != 1 {
		t.Errorf("%d timers", len(a.loop.timers))
	}
}

// asked is what the server of net/http makes of bytes: the request that its handler
// gets, nil if none.
func asked(sent []byte) (got *http.Request) {
	var wg sync.WaitGroup
	ours, theirs := net.Pipe()
	ln := &oneConn{conn: theirs, done: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got == nil {
			got = r
		}
		w.Header().Set("Connection", "close")
	})}
	s.SetKeepAlivesEnabled(false)
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(ln.done)
		}
	}
	wg.Go(func() { _ = s.Serve(ln) })
	go func() {
		_, _ = ours.Write(sent)
		ours.Close()
	}()
	_, _ = io.Copy(io.Discard, ours)
	wg.Wait()
	return got
}

// oneConn is a listener for one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// FuzzHead: what a loop takes for a handshake is one, the same one, for the server of
// net/http; and splits make no difference.
func FuzzHead(f *testing.F) {
	ws := request("gyro.test", "/ws", nil)
	for _, s := range []string{
		ws, strings.ReplaceAll(ws, "\r\n", "\n"), strings.Replace(ws, "/ws", "/ws?a=%41&b", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nA: b\r\n c\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nHost: b\r\n\r\n", 1),
		strings.Replace(ws, "gyro.test", "[::1]:80", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nOrigin: http://a\r\nA:\tb \r\nContent-Length: 0\r\n\r\n", 1),
		"GET /ws HTTP/1.1\r\n\r\n", "GET /ws\n\n", "GET /ws \n\r\n",
	} {
		f.Add([]byte(s), 10)
	}
	l := &listener{prefixes: []string{"GET /ws"}, maxHead: 4 << 10}
	in := newIntake(l, nil)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if len(data) > 16<<10 {
			return
		}
		end, v := l.judge(data, 0)
		if cut > 0 && cut < len(data) {
			if e, w := l.judge(data[:cut], 0); w == verdictIncomplete {
				if e, w = l.judge(data, cut); e != end || w != v {
					t.Fatalf("split at %d: %d %v, want %d %v", cut, e, w, end, v)
				}
			} else if w != v || e != end && v == verdictComplete {
				t.Fatalf("first %d bytes: %d %v, want %d %v", cut, e, w, end, v)
			}
		}
		if v != verdictComplete {
			return
		}
		r := in.parse(data[:end])
		if r == nil {
			return
		}
		want := asked(data[:end])
		if want == nil {
			t.Fatal("net/http refuses what a loop takes")
		}
		if r.Method != want.Method || r.URL.String() != want.URL.String() || r.Host != want.Host || r.RequestURI != want.RequestURI ||
			len(r.Header) != len(want.Header) {
			t.Fatalf("got %v, want %v", r, want)
		}
		for k, v := range want.Header {
			if strings.Join(r.Header[k], "\x00") != strings.Join(v, "\x00") {
				t.Fatalf("field %s: got %q, want %q", k, r.Header[k], v)
			}
		}
	})
}

// BenchmarkHandshake is the work of a handshake but for the socket's.
func BenchmarkHandshake(b *testing.B) {
	head := []byte(request("gyro.test", "/ws?format=protobuf", http.Header{"User-Agent": {"bench"}, "Origin": {"http://gyro.test"}}))
	a := &stepAcceptor{&testServer{t: b}, newStepLoop()}
	h := NewHandler(a, Config{})
	l := &listener{loops: a, server: &http.Server{}, handler: h, serve: h, prefixes: []string{"GET /ws"}, maxHead: 1 << 16, ctx: context.Background()}
	in := newIntake(l, a.loop)
	b.ReportAllocs()
	for b.Loop() {
		end, _ := l.judge(head, 0)
		r := in.parse(head[:end])
		w := &response{handler: h, header: make(http.Header)}
		if !l.ask(w, r.WithContext(l.ctx)) || w.accept == nil || len(w.accept.hs.answer(w.sent)) == 0 {
			b.Fatal("refused")
		}
	}
}

var _ transport.Watcher = (*opening)(nil)
