package front

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
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

// site is a front on a stepLoop with a route for requests of the protocol "test" at /ws.
type site struct {
	t     *testing.T
	loop  *stepLoop
	ln    *Listener
	taken chan change
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
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	(<-s.loop.posts)()
	return nc
}

// send writes, and lets the loop read.
func (s *site) send(nc net.Conn, data string) {
	s.t.Helper()
	if _, err := io.WriteString(nc, data); err != nil {
		s.t.Fatal(err)
	}
	s.loop.ready()
}

// switched reads the answer of a connection that was taken.
func (s *site) switched(nc net.Conn) change {
	s.t.Helper()
	if b, err := io.ReadAll(nc); err != nil || string(b) != switching {
		s.t.Fatalf("the client got %q, %v", b, err)
	}
	return <-s.taken
}

// request asks for the protocol.
func request(fields string) string {
	return "GET /ws?a=b HTTP/1.1\r\nHost: gyro.test\r\nConnection: Upgrade\r\nUpgrade: test\r\n" + fields + "\r\n"
}

// TestSplit: it does not matter where the bytes of a request, and of what follows
// at once, are split.
func TestSplit(t *testing.T) {
	s := newSite(t, nil)
	head := request("")
	for i := range len(head) {
		nc := s.open()
		s.send(nc, head[:i])
		s.send(nc, head[i:]+"early")
		got := s.switched(nc)
		if got.early != "early" || got.path != "/ws" || got.remote != nc.LocalAddr().String() {
			t.Fatalf("split at %d: got %+v", i, got)
		}
	}
	if len(s.loop.watchers) != 0 {
		t.Errorf("%d watchers are left", len(s.loop.watchers))
	}
}

// streams is a route for requests with a body.
var streams = Route{Method: http.MethodPost, Path: "/stream", MaxBody: 1 << 20}

func post(length int, body string) string {
	return fmt.Sprintf("POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", length, body)
}

// TestBodySplit: nor does it matter where a request with a body is split.
func TestBodySplit(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	whole := post(5, "hello")
	for i := range len(whole) {
		nc := s.open()
		s.send(nc, whole[:i])
		s.send(nc, whole[i:]+"early")
		if got := s.switched(nc); got.body != "hello" || got.early != "early" || got.path != "/stream" {
			t.Fatalf("split at %d: got %+v", i, got)
		}
	}
	nc := s.open()
	for i := range len(whole) {
		s.send(nc, whole[i:i+1])
	}
	if got := s.switched(nc); got.body != "hello" || got.early != "" {
		t.Errorf("got %+v", got)
	}
	if in := s.ln.intakes[s.loop]; in.held != 0 || in.waiting.oldest != nil || len(s.loop.watchers) != 0 {
		t.Errorf("held %d, %v, %d watchers", in.held, in.waiting, len(s.loop.watchers))
	}
	large := strings.Repeat("x", maxBody)
	nc = s.open()
	s.send(nc, post(maxBody, large[:1000]))
	s.send(nc, large[1000:])
	s.loop.ready()
	if got := s.switched(nc); got.body != large {
		t.Errorf("got %d bytes", len(got.body))
	}
}

// TestForeignBodies: net/http gets requests whose body is too large, or of unknown length, as soon
// as their head is complete.
func TestForeignBodies(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	for _, sent := range []string{
		post(maxBody+1, ""), strings.Replace(post(5, ""), "Content-Length: 5", "A: b", 1),
		strings.Replace(post(5, ""), "Content-Length: 5", "Transfer-Encoding: chunked", 1),
		strings.Replace(post(5, ""), "Host: a", "Host: a\r\nExpect: 100-continue", 1),
	} {
		nc := s.open()
		if s.send(nc, sent); len(s.loop.watchers) != 0 {
			t.Fatalf("%q was not handed over", sent)
		}
		got, err := s.ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got.Close()
	}
}

// TestLateBody: when its time is over, a request with half a body goes to net/http, and one with half
// a head is closed.
func TestLateBody(t *testing.T) {
	s := newSiteOf(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour }, streams)
	half, sent := s.open(), post(5, "he")
	s.send(half, sent[:20])
	nc := s.open()
	s.send(nc, sent)
	in := s.ln.intakes[s.loop]
	for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
		o.due = time.Now()
	}
	if in.expire(&in.waiting); len(s.loop.watchers) != 0 || in.held != 0 {
		t.Errorf("%d connections, held %d", len(s.loop.watchers), in.held)
	}
	got, err := s.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if b, err := io.ReadAll(got); err != nil || string(b) != sent {
		t.Errorf("got %q, %v", b, err)
	}
	got.Close()
	if b, err := io.ReadAll(half); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v", b, err)
	}
}

// TestBodiesAreBounded: clients that send much of a body and no end cannot make the server hold more
// than the limit.
func TestBodiesAreBounded(t *testing.T) {
	s := newSiteOf(t, nil, streams)
	part := post(maxBody, strings.Repeat("x", 60000))
	for range maxHeld/(64<<10) + 10 {
		s.send(s.open(), part)
	}
	if in := s.ln.intakes[s.loop]; in.held > maxHeld || in.held < maxHeld/2 {
		t.Errorf("holds %d bytes", in.held)
	}
	nc := s.open()
	s.send(nc, post(2, "{}"))
	s.switched(nc)
}

// TestTrickle: byte by byte, the head is searched once, and its bytes are counted
// until they are gone.
func TestTrickle(t *testing.T) {
	s := newSite(t, nil)
	nc := s.open()
	in := s.ln.intakes[s.loop]
	sent := request("A: " + strings.Repeat("x", 3000) + "\r\n")
	for i := range len(sent) {
		s.send(nc, sent[i:i+1])
		if i == 2000 && (in.held < 2000 || in.waiting.oldest.scanned != 2001) {
			t.Errorf("held %d, scanned %d", in.held, in.waiting.oldest.scanned)
		}
	}
	s.switched(nc)
	if in.held != 0 || in.waiting.oldest != nil || in.partial.newest != nil {
		t.Errorf("held %d, %v, %v", in.held, in.waiting, in.partial)
	}
}

// TestForeignEarly: what cannot be a request for the loop is handed over with the
// first byte that says so.
func TestForeignEarly(t *testing.T) {
	s := newSite(t, nil)
	for _, sent := range []string{"P", "GET /wt", "GET /ws/", "GET  ", "\x16"} {
		nc := s.open()
		s.send(nc, sent[:len(sent)-1])
		if len(s.loop.watchers) != 1 {
			t.Errorf("%q was handed over too early", sent)
		}
		s.send(nc, sent[len(sent)-1:])
		if len(s.loop.watchers) != 0 {
			t.Fatalf("%q was not handed over", sent)
		}
		got, err := s.ln.Accept()
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
	s := newSite(t, nil)
	part := strings.TrimSuffix(request("A: "+strings.Repeat("x", 60000)+"\r\n"), "\r\n")
	var conns []net.Conn
	for range maxHeld/(64<<10) + 10 {
		conns = append(conns, s.open())
		s.send(conns[len(conns)-1], part)
	}
	in := s.ln.intakes[s.loop]
	if in.held > maxHeld || in.held < maxHeld/2 {
		t.Errorf("holds %d bytes", in.held)
	}
	nc := s.open() // the usual client is served all the same
	s.send(nc, request(""))
	s.switched(nc)
	for _, nc := range conns {
		nc.Close()
	}
	s.loop.ready() // their ends: net/http is to answer
	if in.held != 0 {
		t.Errorf("holds %d bytes of nobody", in.held)
	}
}

// TestOldestPartFirst: while others hold as much of their heads as there may be, a
// request that comes in two parts is served, and it is the oldest that makes room. Those
// who sent nothing stay.
func TestOldestPartFirst(t *testing.T) {
	s := newSite(t, nil)
	silent := s.open()
	part := strings.TrimSuffix(request("A: "+strings.Repeat("x", 32<<10-200)+"\r\n"), "\r\n")
	var conns []net.Conn
	for i := range maxHeld/(32<<10) + 2 {
		conns = append(conns, s.open())
		if i != 1 {
			s.send(conns[i], part)
		}
	}
	s.send(conns[1], part) // which came early, and begins late
	in := s.ln.intakes[s.loop]
	gone := func(nc net.Conn) bool {
		for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
			if o.remote.String() == nc.LocalAddr().String() {
				return false
			}
		}
		return true
	}
	first := 0
	for ; gone(conns[first]); first += 2 - first%2 { // 0, 2, 3, 4, ...
	}
	if first == 0 || first > 10 || gone(conns[1]) {
		t.Errorf("the first one that is left is %d", first)
	}
	nc := s.open()
	head := request("")
	s.send(nc, head[:40])
	s.send(nc, head[40:])
	s.switched(nc)
	if gone(silent) || gone(conns[1]) {
		t.Error("one that holds nothing, or began late, was closed")
	}
	if in.held > maxHeld || in.held < maxHeld-128<<10 {
		t.Errorf("holds %d bytes", in.held)
	}
}

// TestQueue compares two queues with slices.
func TestQueue(t *testing.T) {
	queues := [queueCount]queue{{which: 0}, {which: 1}}
	var want [queueCount][]*newcomer
	for range 10_000 {
		n := rand.IntN(queueCount)
		l := &queues[n]
		if at := rand.IntN(20); at < len(want[n]) {
			o := want[n][at]
			l.remove(o)
			want[n] = slices.Delete(want[n], at, at+1)
		} else {
			o := new(newcomer)
			if m := 1 - n; len(want[m]) > 0 && !slices.Contains(want[n], want[m][0]) {
				o = want[m][0] // in both
			}
			l.add(o)
			want[n] = append(want[n], o)
		}
		var got []*newcomer
		for o := l.oldest; o != nil; o = l.after(o) {
			got = append(got, o)
		}
		if !slices.Equal(got, want[n]) || len(got) > 0 && l.newest != got[len(got)-1] || len(got) == 0 && l.newest != nil {
			t.Fatalf("got %v, want %v", got, want[n])
		}
	}
}

// TestOneTimer: the connections of a loop share one, which goes on for as long as
// any of them waits.
func TestOneTimer(t *testing.T) {
	s := newSite(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	s.open()
	s.open()
	in := s.ln.intakes[s.loop]
	expire := func() {
		f := s.loop.timers[0]
		s.loop.timers = nil
		f()
	}
	if len(s.loop.timers) != 1 {
		t.Fatalf("%d timers", len(s.loop.timers))
	}
	in.waiting.oldest.due = time.Now()
	if expire(); len(s.loop.watchers) != 1 || len(s.loop.timers) != 1 {
		t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
	}
	in.waiting.oldest.due = time.Now()
	if expire(); len(s.loop.watchers) != 0 || len(s.loop.timers) != 0 || in.waiting.timer != nil {
		t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
	}
	if s.open(); len(s.loop.timers) != 1 {
		t.Errorf("%d timers", len(s.loop.timers))
	}
}

// TestExpireInBatches: silent clients that came at once do not take the loop's time
// at once.
func TestExpireInBatches(t *testing.T) {
	s := newSite(t, func(s *http.Server) { s.ReadHeaderTimeout = time.Hour })
	const clients = 2*expireBatch + 10
	for range clients {
		s.open()
	}
	in := s.ln.intakes[s.loop]
	for o := in.waiting.oldest; o != nil; o = in.waiting.after(o) {
		o.due = time.Now()
	}
	f := s.loop.timers[0]
	s.loop.timers = nil
	f()
	left := clients - expireBatch
	if len(s.loop.watchers) != left || len(s.loop.posts) != 1 {
		t.Fatalf("%d connections, %d posts", len(s.loop.watchers), len(s.loop.posts))
	}
	in.arm(&in.waiting) // as when others come
	for ; left > 0; left -= expireBatch {
		if len(s.loop.watchers) != left || len(s.loop.timers) != 0 {
			t.Errorf("%d connections, %d timers", len(s.loop.watchers), len(s.loop.timers))
		}
		(<-s.loop.posts)()
	}
	if s.open(); len(s.loop.watchers) != 1 || len(s.loop.posts) != 0 || len(s.loop.timers) != 1 {
		t.Errorf("%d connections, %d posts, %d timers", len(s.loop.watchers), len(s.loop.posts), len(s.loop.timers))
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

// FuzzHead: what the front takes for a request is one, the same one, for the server of
// net/http; and splits make no difference.
func FuzzHead(f *testing.F) {
	ws := request("")
	for _, s := range []string{
		ws, strings.ReplaceAll(ws, "\r\n", "\n"), strings.Replace(ws, "a=b", "a=%41&b", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nA: b\r\n c\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nHost: b\r\n\r\n", 1),
		strings.Replace(ws, "gyro.test", "[::1]:80", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nOrigin: http://a\r\nA:\tb \r\nContent-Length: 0\r\n\r\n", 1),
		"GET /ws HTTP/1.1\r\n\r\n", "GET /ws\n\n", "GET /ws \n\r\n",
		strings.Replace(ws, "a=b", "", 1), strings.Replace(ws, "a=b", "??#é%", 1), strings.Replace(ws, "a=b HTTP/1.1", "a=b HTTP/1.1 HTTP/1.1", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\npragma: no-cache\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nPragma: no-cache\r\ncache-control:\r\nCache-Control: a\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nTrailer: a\r\nA:\r\nA: b\r\na: \xff\r\n\r\n", 1),
		strings.Replace(ws, "Host: gyro.test", "Host:\r\nHost: gyro.test", 1), strings.Replace(ws, "\r\n", "\r\r\n", 2),
		strings.Replace(ws, "Upgrade\r", "Upgrade, Close\r", 1), strings.Replace(ws, "\r\n\r\n", "\r\n \r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", strings.Repeat("\r\nA: b", maxFields)+"\r\n\r\n", 1),
	} {
		f.Add([]byte(s), 10)
	}
	for _, s := range []string{
		"POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
		"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", "POST /api?a HTTP/1.1\r\nHost: a\r\nContent-Length: 02\r\nTE: a\r\n\r\n",
		"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: x close\r\n\r\n",
	} {
		f.Add([]byte(s), 30)
	}
	in := newIntake(&Listener{}, nil)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if len(data) > 16<<10 {
			return
		}
		judge := func(n, scanned int) (*route, int, outcome) { return known.judge(data[:n], scanned, 8<<10) }
		r, end, o := judge(len(data), 0)
		if cut > 0 && cut < len(data) {
			if r2, e, w := judge(cut, 0); w == partial {
				if r2, e, w = judge(len(data), cut); r2 != r || e != end || w != o {
					t.Fatalf("split at %d: %d %v, want %d %v", cut, e, w, end, o)
				}
			} else if w != o || r2 != r || e != end {
				t.Fatalf("first %d bytes: %d %v, want %d %v", cut, e, w, end, o)
			}
		}
		if o == complete {
			sameRequest(t, &in.request, r, data, end)
		}
	})
}

// FuzzFields is FuzzHead where a request is likely to be one.
func FuzzFields(f *testing.F) {
	f.Add(false, "", "Host: a\r\n", "A: b\r\n")
	f.Add(true, "?a=b", "hOST:[::1]:80 \r\n", "Pragma: no-cache\r\nA:\t\r\nA: \xff\r\n")
	f.Add(true, "?", "Host: a\n", "Connection: x, close\r\n")
	f.Add(false, "? ", "Host: a\r\nHost: b\r\n", " A: b\r\n")
	f.Add(false, "", "Host: a\r\n", "Content-Length: 2\r\n")
	f.Add(true, "", "Host: a\r\n", "Content-Length: 002\r\nX-API-Key: a\r\nx-api-key: b\r\nUpgrade:\r\n")
	var q Request
	f.Fuzz(func(t *testing.T, post bool, query, host, fields string) {
		text := "GET /ws" + query + " HTTP/1.1\r\nConnection: Upgrade\r\n" + host + "Upgrade: test\r\n" + fields + "\r\n"
		if post {
			text = "POST /api" + query + " HTTP/1.1\r\n" + host + fields + "\r\n"
		}
		data := []byte(text)
		if r, end, o := known.judge(data, 0, 16<<10); o == complete {
			sameRequest(t, &q, r, data, end)
		}
	})
}

// FuzzBody: a request with a body is complete when it is for net/http, with the same body, and
// splits make no difference.
func FuzzBody(f *testing.F) {
	f.Add("Content-Length: 5\r\n", []byte("hello, world"), 40)
	f.Add("Content-Length: 05\r\nA: b\r\n", []byte("hell"), 70)
	f.Add("Content-Length: 0\r\n", []byte(""), 60)
	f.Add("content-length:\t1000 \r\n", bytes.Repeat([]byte("\r\n"), 600), 80)
	f.Add("Content-Length: 1001\r\n", bytes.Repeat([]byte("x"), 1001), 80)
	f.Add("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", []byte("0\r\n\r\n"), 80)
	in := newIntake(&Listener{onLoops: known, maxHead: 16 << 10}, nil)
	f.Fuzz(func(t *testing.T, fields string, body []byte, cut int) {
		data := append([]byte("POST /stream HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n"), body...)
		n := new(newcomer)
		r, end, o := in.examine(n, data)
		if cut > 0 && cut < len(data) {
			m := new(newcomer)
			if _, _, first := in.examine(m, data[:cut]); first == partial {
				if r2, end2, o2 := in.examine(m, data); r2 != r || end2 != end || o2 != o || o == partial && m.whole != n.whole {
					t.Fatalf("split at %d: %d %v %d, want %d %v %d", cut, end2, o2, m.whole, end, o, n.whole)
				}
			} else if first != o {
				t.Fatalf("the first %d bytes are %v, all are %v", cut, first, o)
			}
			if o == complete {
				in.examine(n, data) // parse it again
			}
		}
		if o == foreign || o == partial && n.whole == 0 {
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatal("http.ReadRequest refuses what a route gets:", err)
		}
		got, err := io.ReadAll(want.Body)
		switch {
		case o == partial && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatalf("the body is incomplete, but for net/http it is %q, %v", got, err)
		case o == complete && (err != nil || string(got) != string(data[end:in.request.end(end)])):
			t.Fatalf("the body is %q, for net/http %q, %v", data[end:in.request.end(end)], got, err)
		}
	})
}

// known are one route of each kind.
var known = func() (rs routes) {
	rs.add(Route{Method: http.MethodGet, Path: "/ws", Upgrade: "test", Take: func(*Arrival) {}})
	rs.add(Route{Method: http.MethodPost, Path: "/api"})
	rs.add(Route{Method: http.MethodPost, Path: "/stream", MaxBody: 1000, Take: func(*Arrival) {}})
	return rs
}()

// sameRequest compares what the front makes of a head, which ends at end, with what net/http
// does, if it is one for a route.
func sameRequest(t *testing.T, q *Request, r *route, data []byte, end int) {
	t.Helper()
	head := data[:end]
	if !q.parse(string(head)) || !r.wants(q) {
		return
	}
	sent := append(bytes.Clone(head), make([]byte, max(q.length, 0))...)
	want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
	if err != nil {
		t.Fatal("http.ReadRequest refuses what a route gets:", err)
	}
	got := FromHTTP(want)
	if want.URL.Path != r.Path || got.Method != q.Method || got.Path != q.Path || got.Query != q.Query || got.Host != q.Host {
		t.Fatalf("got %+v, want %+v", q, got)
	}
	if want.ContentLength != int64(max(q.length, 0)) || want.Close || want.TransferEncoding != nil || want.Proto != "HTTP/1.1" {
		t.Fatalf("got %+v, want %+v", q, want)
	}
	served := asked(sent)
	if served == nil {
		t.Fatal("net/http refuses what a route gets")
	}
	if !reflect.DeepEqual(want.Header, served.Header) || want.Host != served.Host || want.RequestURI != served.RequestURI {
		t.Fatalf("ReadRequest says %+v, the server %+v", want, served)
	}
	sameFields(t, q, want.Header)
}

// sameFields compares the ways to ask for fields.
func sameFields(t *testing.T, q *Request, want http.Header) {
	t.Helper()
	want = want.Clone()
	want.Del("Content-Length")
	if got := q.Header()(); !reflect.DeepEqual(got, want) {
		t.Fatalf("later: %q, want %q", got, want)
	}
	for name, values := range want {
		if name == "Cache-Control" { // may be made of another one
			continue
		}
		for _, name := range []string{name, strings.ToUpper(name)} {
			if got := q.Values(name); !slices.Equal(got, values) || q.Get(name) != values[0] {
				t.Fatalf("%s: %q, want %q", name, got, values)
			}
		}
	}
	if q.Get("No-Such") != want.Get("No-Such") || len(q.Values("No-Such")) != len(want.Values("No-Such")) {
		t.Fatalf("there is a field that nobody sent")
	}
}

// usual is a request as browsers send it.
var usual = request("User-Agent: bench\r\nPragma: no-cache\r\nCache-Control: no-cache\r\nOrigin: http://gyro.test\r\n" +
	"Sec-WebSocket-Version: 13\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: en\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
	"Sec-WebSocket-Protocol: centrifuge-json\r\n")

// TestParseAllocations: reading a request, and asking for its fields, leaves no garbage.
func TestParseAllocations(t *testing.T) {
	var q Request
	if n := testing.AllocsPerRun(100, func() {
		if !q.parse(usual) || q.Get("origin") == "" || len(q.Values("Accept-Language")) != 1 {
			t.Fatal("refused")
		}
	}); n > 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

// TestReset: a request that was answered keeps nothing alive.
func TestReset(t *testing.T) {
	var q Request
	q.parse(usual)
	q.reset()
	for _, v := range q.values[:cap(q.values)] {
		if v != "" {
			t.Errorf("left: %q", v)
		}
	}
	if q.head != "" || q.Path != "" || q.Query != "" || q.Host != "" {
		t.Errorf("left: %+v", q)
	}
}

// TestAgain: a head is taken for the one before only if nothing but its length differs.
func TestAgain(t *testing.T) {
	head := "POST /api HTTP/1.1\r\nHost: a\r\nX-A: 12\r\nContent-Length: 107\r\nX-B: 3\r\n\r\n"
	digits := strings.Index(head, "107")
	for range 20_000 {
		var q, fresh Request
		if !q.parse(head) {
			t.Fatal("refused")
		}
		data := []byte(head + "body")
		at := rand.IntN(len(head))
		if rand.IntN(2) == 0 {
			at = digits + rand.IntN(3)
		}
		data[at] = "0123456789 \n:x+"[rand.IntN(15)]
		same := string(data[:len(head)]) == head
		number := at >= digits && at < digits+3 && '0' <= data[at] && data[at] <= '9'
		if got := q.again(data); got != (same || number) {
			t.Fatalf("%q: %v", data, got)
		} else if got && (!fresh.parse(string(data[:len(head)])) || fresh.length != q.length) {
			t.Fatalf("%q: length %d, want %d", data, q.length, fresh.length)
		}
		if q.again(data[:len(head)-1]) {
			t.Fatal("an incomplete head is the same")
		}
	}
}

// TestOddPaths: a path that net/http reads in a way of its own is left to it.
func TestOddPaths(t *testing.T) {
	for path, want := range map[string]bool{"/": true, "/a/b-c.d": true, "//a": true, "/%41": false, "/a?b": false, "": false, "*": false, "/a\x01": false} {
		if got := plainPath(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// BenchmarkRequest is the work for a request but for the socket's and the route's.
func BenchmarkRequest(b *testing.B) {
	head := []byte(usual)
	in := newIntake(&Listener{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, end, _ := known.judge(head, 0, 1<<16)
		if !in.request.parse(string(head[:end])) {
			b.Fatal("refused")
		}
	}
}

var _ transport.Watcher = (*newcomer)(nil)

// watching is an acceptor as far as a listener needs it: what watches sockets.
type watching struct {
	transport.Acceptor
	next func() transport.Loop
}

func (w watching) NextLoop() transport.Loop { return w.next() }

func (w watching) AcceptOn(transport.Loop, context.Context, transport.Conn, transport.Info) (transport.Peer, error) {
	panic("a listener accepts no clients")
}
