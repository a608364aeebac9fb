package upgrade

import (
	"bufio"
	"bytes"
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

// site is a listener on a stepLoop for requests of the protocol "test" at /ws.
type site struct {
	t     *testing.T
	loop  *stepLoop
	ln    *listener
	taken chan taken
}

// taken is a connection that changed its protocol.
type taken struct {
	fd    uintptr
	early string
	r     *http.Request
}

func newSite(t *testing.T, edit func(*http.Server)) *site {
	s := &site{t: t, loop: newStepLoop(), taken: make(chan taken, 1000)}
	server := &http.Server{Handler: s}
	if edit != nil {
		edit(server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(ln.(*net.TCPListener), Config{
		Server: server, Next: func() transport.Loop { return s.loop }, Protocol: "test", Paths: []string{"/ws"}, Owner: s,
	})
	if err != nil {
		ln.Close()
		t.Skip(err)
	}
	s.ln = l.(*listener)
	t.Cleanup(func() {
		l.Close()
		s.loop.ready()
	})
	return s
}

// ServeHTTP takes every connection.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusSwitchingProtocols)
	Behind(w, s).Take([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n"), func(l transport.Loop, fd uintptr, early []byte) {
		l.Unwatch(int(fd))
		netio.CloseFD(fd, false)
		s.taken <- taken{fd, string(early), r}
	})
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
func (s *site) switched(nc net.Conn) taken {
	s.t.Helper()
	if b, err := io.ReadAll(nc); err != nil || string(b) != "HTTP/1.1 101 Switching Protocols\r\n\r\n" {
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
		if got.early != "early" || got.r.URL.Path != "/ws" || got.r.RemoteAddr != nc.LocalAddr().String() {
			t.Fatalf("split at %d: got %q of %v", i, got.early, got.r)
		}
	}
	if len(s.loop.watchers) != 0 {
		t.Errorf("%d watchers are left", len(s.loop.watchers))
	}
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

// TestLine compares two lines with slices.
func TestLine(t *testing.T) {
	lines := [lineCount]line{{which: 0}, {which: 1}}
	var want [lineCount][]*opening
	for range 10_000 {
		n := rand.IntN(lineCount)
		l := &lines[n]
		if at := rand.IntN(20); at < len(want[n]) {
			o := want[n][at]
			l.remove(o)
			want[n] = slices.Delete(want[n], at, at+1)
		} else {
			o := new(opening)
			if m := 1 - n; len(want[m]) > 0 && !slices.Contains(want[n], want[m][0]) {
				o = want[m][0] // in both
			}
			l.add(o)
			want[n] = append(want[n], o)
		}
		var got []*opening
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
	if expire(); len(s.loop.watchers) != 0 || len(s.loop.timers) != 0 || in.timer != nil {
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
	in.arm() // as when others come
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

// FuzzHead: what a loop takes for a handshake is one, the same one, for the server of
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
	l := &listener{cfg: Config{Protocol: "test"}, prefixes: []string{"GET /ws"}, maxHead: 4 << 10}
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
		sameRequest(t, &in.request, data[:end])
	})
}

// FuzzFields is FuzzHead where a request is likely to be one.
func FuzzFields(f *testing.F) {
	f.Add("", "Host: a\r\n", "A: b\r\n")
	f.Add("?a=b", "hOST:[::1]:80 \n", "Pragma: no-cache\nA:\t\nA: \xff\r\n")
	f.Add("?", "Host: a\r\n", "Connection: close, x\r\n")
	f.Add("? ", "Host: a\r\nHost: b\r\n", " A: b\r\n")
	var q Request
	f.Fuzz(func(t *testing.T, query, host, fields string) {
		head := []byte("GET /ws" + query + " HTTP/1.1\r\nConnection: Upgrade\r\n" + host + "Upgrade: test\r\n" + fields + "\r\n")
		if end := headEnd(head, 0); end > 0 && len(head) < 16<<10 {
			sameRequest(t, &q, head[:end])
		}
	})
}

// sameRequest compares what a loop makes of a head with what net/http does, if it is
// one for the loop.
func sameRequest(t *testing.T, q *Request, head []byte) {
	t.Helper()
	if !q.parse(string(head), "test") || q.Path != "/ws" { // a listener looks at the path before
		return
	}
	want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		t.Fatal("http.ReadRequest refuses what a loop takes:", err)
	}
	got := q.http(t.Context(), "")
	if !reflect.DeepEqual(got, want.WithContext(t.Context())) {
		t.Fatalf("got\n%#v\nwant\n%#v", got, want)
	}
	if served := asked(head); served == nil {
		t.Fatal("net/http refuses what a loop takes")
	} else if !reflect.DeepEqual(got.Header, served.Header) || got.RequestURI != served.RequestURI || got.Host != served.Host {
		t.Fatalf("got\n%#v\nwant\n%#v", got, served)
	}
	sameFields(t, q, want.Header)
}

// sameFields compares the ways to ask for fields.
func sameFields(t *testing.T, q *Request, want http.Header) {
	t.Helper()
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
		if !q.parse(usual, "test") || q.Get("origin") == "" || len(q.Values("Accept-Language")) != 1 {
			t.Fatal("refused")
		}
	}); n > 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

// TestReset: a request that was answered keeps nothing alive.
func TestReset(t *testing.T) {
	var q Request
	q.parse(usual, "test")
	q.reset()
	for _, f := range q.fields[:cap(q.fields)] {
		if f != (field{}) {
			t.Errorf("left: %v", f)
		}
	}
	for _, v := range q.values[:cap(q.values)] {
		if v != "" {
			t.Errorf("left: %q", v)
		}
	}
	if q.head != "" || q.target != "" || q.Path != "" || q.Query != "" || q.Host != "" {
		t.Errorf("left: %+v", q)
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

// BenchmarkRequest is the work for a request but for the socket's and the handler's.
func BenchmarkRequest(b *testing.B) {
	head := []byte(usual)
	l := &listener{cfg: Config{Protocol: "test"}, prefixes: []string{"GET /ws"}, maxHead: 1 << 16}
	in := newIntake(l, nil)
	b.ReportAllocs()
	for b.Loop() {
		end, _ := l.judge(head, 0)
		if !in.request.parse(string(head[:end]), "test") {
			b.Fatal("refused")
		}
	}
}

var _ transport.Watcher = (*opening)(nil)
