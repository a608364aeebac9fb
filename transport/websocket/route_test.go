package websocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
)

// needLoops skips a test of routes where it has nothing to do, and in two of
// the three runs.
func needLoops(t *testing.T) {
	t.Helper()
	if !poll.Supported() {
		t.Skip("loops watch no sockets here")
	}
	if !direct {
		t.Skip("of the run with routes")
	}
}

// siteServer serves a WebSocket endpoint at /ws and others beside it.
func siteServer(t *testing.T, routed bool, edit func(*http.Server)) *testServer {
	return siteServerWith(t, Config{}, nil, routed, edit)
}

// siteServerWith has a gate in front of the WebSocket endpoint; nil: none.
func siteServerWith(t *testing.T, cfg Config, gate front.Gate, routed bool, edit func(*http.Server)) *testServer {
	s := &testServer{t: t, peers: make(chan *testPeer, 2000)}
	s.runLoop()
	h := NewHandler(s, cfg)
	mux := http.NewServeMux()
	if gate != nil {
		mux.Handle("/ws", front.Wrap(gate, h))
	} else {
		mux.Handle("/ws", h)
	}
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %.20q %v", r.Method, len(b), b, err)
	})
	s.Server = httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.MaxHeaderBytes = 8 << 10
	if edit != nil {
		edit(s.Config)
	}
	if routed {
		r := h.Route("/ws")
		r.Gate = gate
		if secure {
			s.Config.TLSConfig = testTLS()
			s.Listener = front.ListenTLS(s.Listener, s.Config, s, r)
		} else {
			s.Listener = front.Listen(s.Listener, s.Config, s, r)
		}
	}
	s.Start()
	t.Cleanup(s.Server.Close)
	return s
}

// exchange sends everything and returns all that comes back.
func exchange(t *testing.T, s *testServer, sent string) string {
	t.Helper()
	nc := s.dial()
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(nc, sent); err != nil {
		t.Fatal(err)
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(nc)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	return string(b)
}

var dates = regexp.MustCompile(`Date: [^\r]+`)

// oddities are what clients send on a connection, by name.
func oddities() map[string]string {
	ws := request("gyro.test", "/ws", nil)
	with := func(field string) string { return strings.TrimSuffix(ws, "\r\n") + field + "\r\n\r\n" }
	get := "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
	return map[string]string{
		"nothing":               "",
		"one byte":              "G",
		"other path":            get,
		"unknown path":          "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
		"longer path":           strings.Replace(ws, "/ws", "/wss", 1),
		"keep-alive":            get + "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get,
		"large body":            "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("x", 300000) + get,
		"chunked":               "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\n wo\r\n0\r\n\r\n" + get,
		"100-continue":          "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
		"HEAD":                  "HEAD /ws HTTP/1.1\r\nHost: a\r\n\r\n",
		"no upgrade":            "GET /ws HTTP/1.1\r\nHost: a\r\n\r\n" + get,
		"HTTP/1.0":              strings.Replace(ws, "HTTP/1.1", "HTTP/1.0", 1),
		"HTTP/2.0":              strings.Replace(ws, "HTTP/1.1", "HTTP/2.0", 1),
		"preface":               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"garbage":               "\x00\xff\x01 garbage\r\n\r\n",
		"TLS":                   "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x11", 600),
		"no host":               strings.Replace(ws, "Host: gyro.test\r\n", "", 1),
		"empty host":            strings.Replace(ws, "gyro.test", "", 1),
		"odd host":              strings.Replace(ws, "gyro.test", "a/b", 1),
		"two hosts":             with("Host: other"),
		"bad field name":        with("A b: c"),
		"field without colon":   with("Abc"),
		"empty field name":      with(": x"),
		"bad field value":       with("A: \x01"),
		"folded field":          with("A: b\r\n c"),
		"body":                  with("Content-Length: 5") + "hello" + get,
		"bad length":            with("Content-Length: x"),
		"chunked handshake":     with("Transfer-Encoding: chunked") + "0\r\n\r\n",
		"expectation":           with("Expect: 100-continue"),
		"unknown expectation":   with("Expect: something"),
		"close":                 strings.Replace(ws, "Connection: Upgrade", "Connection: Upgrade, close", 1),
		"bad target":            strings.Replace(ws, "/ws", "/ws?%zz\x01", 1),
		"absolute target":       strings.Replace(ws, "/ws", "http://gyro.test/ws", 1),
		"encoded path":          strings.Replace(ws, "/ws", "/w%73", 1),
		"foreign origin":        with("Origin: http://evil.test") + get,
		"bad version":           strings.Replace(ws, "Version: 13", "Version: 12", 1) + get,
		"no key":                strings.Replace(ws, testKey, "", 1),
		"incomplete":            ws[:len(ws)-2],
		"head too large":        with("A: " + strings.Repeat("x", 13<<10)),
		"endless head":          strings.TrimSuffix(ws, "\r\n") + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 100),
		"large head":            with("A: "+strings.Repeat("x", 7<<10)) + string(masked(closeFr(1000, ""))),
		"line feeds":            strings.ReplaceAll(ws, "\r\n", "\n") + string(masked(closeFr(1000, ""))),
		"handshake":             ws + string(masked(closeFr(1000, "bye"))),
		"handshake with query":  strings.Replace(ws, "/ws", "/ws?a=b&format=protobuf", 1) + string(masked(closeFr(1000, "bye"))),
		"handshake and nothing": ws,
		"empty query":           strings.Replace(ws, "/ws", "/ws?", 1),
		"odd query":             strings.Replace(ws, "/ws", "/ws?;&%zz&é?#&format=%70rotobuf", 1),
		"fragment":              strings.Replace(ws, "/ws", "/ws#a", 1),
		"host first empty":      strings.Replace(ws, "Host: ", "Host:\r\nHost: ", 1),
		"carriage returns":      strings.Replace(ws, "\r\n", "\r\r\n", 1),
		"spaces at the end":     strings.Replace(ws, "HTTP/1.1\r", "HTTP/1.1 \r", 1),
		"space before colon":    with("A : b"),
		"blank line with space": with(" "),
		"trailer":               with("Trailer: A"),
		"zero length":           with("Content-Length: 0"),
		"many fields":           strings.TrimSuffix(ws, "\r\n") + strings.Repeat("A: b\r\n", 100) + "\r\n",
		"own origin":            with("Origin: http://gyro.test"),
		"two origins":           with("Origin: http://gyro.test\r\nOrigin: http://evil.test"),
		"two versions":          strings.Replace(ws, "Version: 13", "Version: 12\r\nSec-WebSocket-Version: 13", 1),
		"two keys":              with("Sec-WebSocket-Key: x"),
		"long key":              strings.Replace(ws, testKey, testKey+testKey, 1),
		"key of line breaks":    strings.Replace(ws, testKey, "dGhlIHNhbXBsZSBub25jZQ\\n", 1),
		"subprotocols":          with("Sec-WebSocket-Protocol: x,,centrifuge-protobuf\r\nSec-WebSocket-Protocol: centrifuge-json"),
		"extensions":            with("Sec-WebSocket-Extensions: x; y, permessage-deflate; server_max_window_bits=15\r\nSec-WebSocket-Protocol: centrifuge-json"),
		"bad extensions":        with("Sec-WebSocket-Extensions: x;;"),
		"lower case":            strings.ToLower(ws[:len("GET")]) + ws[len("GET"):],
		"names in lower case":   strings.Replace(strings.Replace(ws, "Sec-Websocket", "sec-websocket", -1), "Upgrade:", "upgrade:", 1),
	}
}

// ambiguous are the oddities that net/http takes and a proxy may take in another way.
var ambiguous = map[string]bool{"line feeds": true, "folded field": true, "blank line with space": true}

// TestSameAnswers: whatever a client sends, the route makes no difference. Ambiguous requests it refuses.
func TestSameAnswers(t *testing.T) {
	needLoops(t)
	compress := Config{Compression: true}
	plain, ours := siteServerWith(t, compress, nil, false, nil), siteServerWith(t, compress, nil, true, nil)
	for name, sent := range oddities() {
		t.Run(name, func(t *testing.T) {
			want := dates.ReplaceAllString(exchange(t, plain, sent), "Date: ")
			got := dates.ReplaceAllString(exchange(t, ours, sent), "Date: ")
			if ambiguous[name] {
				if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") || strings.Contains(got, "HTTP/1.1 101") {
					t.Errorf("got\n%.500s", got)
				}
				if len(plain.peers) > 0 {
					(<-plain.peers).ClosedWith()
				}
				if len(ours.peers) > 0 {
					t.Error("it has become a client")
				}
				return
			}
			if sorted(got) != sorted(want) {
				t.Errorf("got\n%.500s\nwant\n%.500s", got, want)
			}
			sameInfo(t, plain, ours)
		})
	}
}

// sameInfo ends the connections of an exchange, of which all acceptors are told the
// same.
func sameInfo(t *testing.T, servers ...*testServer) {
	t.Helper()
	var want *testPeer
	for i, s := range servers {
		var p *testPeer
		if len(s.peers) > 0 {
			p = <-s.peers
			p.ClosedWith()
		}
		if i == 0 {
			want = p
			continue
		}
		switch {
		case (p == nil) != (want == nil):
			t.Fatalf("server %d: a connection is %v", i, p != nil)
		case p == nil:
		case p.Info.NativePing != want.Info.NativePing || p.Info.Framer.Encoding() != want.Info.Framer.Encoding() ||
			p.Info.Framer.Costly() != want.Info.Framer.Costly() || !reflect.DeepEqual(p.Info.Header(), want.Info.Header()):
			t.Errorf("server %d: got %+v of %v, want %+v of %v", i, p.Info, p.Info.Header(), want.Info, want.Info.Header())
		}
	}
}

// testGate refuses what it is told to, and notes who passed: "enter" and the status.
type testGate struct {
	refusal atomic.Pointer[front.Refusal]
	mu      sync.Mutex
	passed  []string
}

func (g *testGate) Enter(q *front.Request) *front.Refusal {
	if q.Get("Origin") == "oops" {
		panic("the application's fault")
	}
	g.note("enter " + q.Path)
	return g.refusal.Load()
}

func (g *testGate) Leave(_ *front.Request, status int) { g.note(fmt.Sprint(status)) }

func (g *testGate) note(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed = append(g.passed, what)
}

// await waits until somebody has left, and forgets who passed.
func (g *testGate) await(t *testing.T) (passed string) {
	t.Helper()
	wait.Until(t, "somebody leaves", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if n := len(g.passed); n == 0 || strings.HasPrefix(g.passed[n-1], "enter") {
			return false
		}
		passed, g.passed = strings.Join(g.passed, ", "), nil
		return true
	})
	return passed
}

// TestRoute: the usual handshake is seen by nobody but the gate, all others by the server's
// handler as well. Each passes the gate once.
func TestRoute(t *testing.T) {
	needLoops(t)
	var handled atomic.Int32
	var logs logtest.Buffer
	var gate testGate
	cfg := Config{CheckOrigin: func(q *front.Request) bool { return q.Get("Origin") != "foreign" }}
	s := siteServerWith(t, cfg, &gate, true, func(hs *http.Server) {
		hs.ErrorLog = log.New(&logs, "", 0)
		next := hs.Handler
		hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	for _, header := range []http.Header{nil, {"Origin": {"any"}, "A": {"b", "c"}}} {
		c, p := s.connect("/ws?cf_ws_frame_ping_pong=true", header, text("early"))
		if got := gate.await(t); got != "enter /ws, 101" || handled.Load() != 0 {
			t.Errorf("%v: %s, %d handled", header, got, handled.Load())
		}
		if _, ok := p.Inside.(*loopConn); !ok || p.Context.Value(http.ServerContextKey) != s.Config || !p.Info.NativePing ||
			p.Info.RemoteAddr != c.nc.LocalAddr().String() || len(p.Info.Header()["A"]) != len(header["A"]) {
			t.Errorf("%T, %v, %+v", p.Inside, p.Context, p.Info)
		}
		p.Message()
		converse(t, c, p)
	}
	for status, header := range map[string]http.Header{"400": {"Sec-Websocket-Version": {"1"}}, "403": {"Origin": {"foreign"}}} {
		handled.Store(0)
		got := exchange(t, s, request("gyro.test", "/ws", header))
		if passed := gate.await(t); !strings.HasPrefix(got, "HTTP/1.1 "+status) || passed != "enter /ws, "+status || handled.Load() != 1 {
			t.Errorf("got %q, %s, %d handled", got, passed, handled.Load())
		}
	}
	if got := exchange(t, s, request("gyro.test", "/ws", http.Header{"Origin": {"oops"}})); got != "" {
		t.Errorf("got %q", got)
	}
	if passed := gate.await(t); passed != "500" {
		t.Errorf("a panic: %s", passed)
	}
	if n := strings.Count(logs.String(), "http: panic serving"); n != 1 || !strings.Contains(logs.String(), "the application's fault") {
		t.Errorf("log: %s", logs.String())
	}
}

// TestRouteRefused: the gate refuses as if net/http did, and the connection goes on.
func TestRouteRefused(t *testing.T) {
	needLoops(t)
	var gate testGate
	plain, ours := siteServerWith(t, Config{}, &gate, false, nil), siteServerWith(t, Config{}, &gate, true, nil)
	for _, after := range []string{"", "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", request("gyro.test", "/ws", nil)} {
		gate.refusal.Store(&front.Refusal{Status: http.StatusServiceUnavailable, Text: "full"})
		var answers []string
		for _, s := range []*testServer{plain, ours} {
			got := exchange(t, s, request("gyro.test", "/ws", nil)+after)
			answers = append(answers, sorted(dates.ReplaceAllString(got, "Date: ")))
			if passed := gate.await(t); !strings.HasPrefix(passed, "enter /ws, 503") {
				t.Errorf("passed: %s", passed)
			}
		}
		if answers[0] != answers[1] || !strings.Contains(answers[1], "full\n") {
			t.Errorf("got\n%s\nwant\n%s", answers[1], answers[0])
		}
	}
	nc := ours.dial()
	_ = nc.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(nc, request("gyro.test", "/ws", nil))
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	gate.refusal.Store(nil)
	c, _ := newClient(t, nc, "/ws", nil)
	converse(t, c, wait.Receive(t, "a peer", ours.peers))
}

// TestRouteNotAccepted: an acceptor that takes nobody has its say.
func TestRouteNotAccepted(t *testing.T) {
	needLoops(t)
	s := siteServer(t, true, nil)
	s.prepare = func(*testPeer) error { return protocol.DisconnectShutdown }
	c, _ := newClient(t, s.dial(), "/ws", nil, text("early"))
	c.expect(closeFr(uint16(protocol.DisconnectShutdown.Code), protocol.DisconnectShutdown.Reason))
	c.send(closeFr(1000, ""))
	c.expectEOF()
}

// sorted brings the fields of a response into an order.
func sorted(answer string) string {
	lines := strings.SplitAfter(answer, "\n")
	end := 1
	for end < len(lines) && strings.TrimSpace(lines[end]) != "" {
		end++
	}
	if end < len(lines) {
		head := lines[1:end]
		for i := range head {
			for j := i; j > 0 && head[j] < head[j-1]; j-- {
				head[j], head[j-1] = head[j-1], head[j]
			}
		}
	}
	return strings.Join(lines, "")
}

// TestHandedOver: what net/http and its handlers do with a connection works.
func TestHandedOver(t *testing.T) {
	needLoops(t)
	conns := make(chan net.Conn, 10)
	s := siteServer(t, true, func(hs *http.Server) {
		mux := hs.Handler.(*http.ServeMux)
		mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
			if r.RemoteAddr == "" || r.Context().Value(http.LocalAddrContextKey) == nil {
				t.Error("addresses are missing")
			}
			<-r.Context().Done() // the client leaves
			conns <- nil
		})
		mux.HandleFunc("/take", func(w http.ResponseWriter, r *http.Request) {
			nc, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
			}
			conns <- nc
		})
	})
	nc := s.dial()
	fmt.Fprint(nc, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	nc.Close()
	wait.Receive(t, "the end of the request's context", conns)

	nc = s.dial()
	defer nc.Close()
	fmt.Fprint(nc, "GET /take HTTP/1.1\r\nHost: a\r\n\r\n")
	taken := wait.Receive(t, "the connection", conns)
	defer taken.Close()
	if taken.RemoteAddr().String() != nc.LocalAddr().String() || taken.LocalAddr().String() != nc.RemoteAddr().String() {
		t.Errorf("addresses %v, %v", taken.RemoteAddr(), taken.LocalAddr())
	}
	_ = taken.SetReadDeadline(time.Unix(1, 0))
	if _, err := taken.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read with a deadline: %v", err)
	}
	_ = taken.SetReadDeadline(time.Time{})
	fmt.Fprint(nc, "ping")
	b := make([]byte, 4)
	if _, err := io.ReadFull(taken, b); err != nil || string(b) != "ping" {
		t.Errorf("read %q, %v", b, err)
	}
	fmt.Fprint(taken, "pong")
	if err := taken.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(nc); err != nil || string(got) != "pong" {
		t.Errorf("client got %q, %v", got, err)
	}
}

// TestUpgradeAfterHandOver: a handshake that net/http reads, as the second request
// or for its encoding, ends on a loop all the same.
func TestUpgradeAfterHandOver(t *testing.T) {
	needLoops(t)
	s := siteServer(t, true, nil)
	for _, first := range []string{
		"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n",
		strings.Replace(request("gyro.test", "/ws", nil), "Version: 13", "Version: 1", 1),
	} {
		nc := s.dial()
		_ = nc.SetDeadline(time.Now().Add(patience))
		fmt.Fprint(nc, first)
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		c, _ := newClient(t, nc, "/ws", nil, text("early"))
		p := wait.Receive(t, "a peer", s.peers)
		if _, ok := p.Inside.(*loopConn); !ok {
			t.Errorf("the connection is a %T", p.Inside)
		}
		p.Message()
		converse(t, c, p)
	}
}

// wrapped is a connection in a type of its own, which may be in the way or not.
type wrapped struct {
	net.Conn
	needed bool
}

func (w *wrapped) Bare() net.Conn {
	if w.needed {
		return nil
	}
	return w.Conn
}

// wrapping is a listener of wrapped connections, every other of which is needed.
type wrapping struct {
	net.Listener
	n int
}

func (l *wrapping) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	l.n++
	return &wrapped{nc, l.n%2 == 0}, err
}

// TestWrapped: a connection's wrapper can step aside, and then does not keep it off
// a loop.
func TestWrapped(t *testing.T) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	s.runLoop()
	s.Server = httptest.NewUnstartedServer(NewHandler(s, Config{}))
	s.Listener = &wrapping{Listener: &wrapping{Listener: s.Listener, n: -1000}, n: -1000} // in step
	s.Start()
	t.Cleanup(s.Server.Close)
	for _, needed := range []bool{false, true} {
		c, p := s.connect("/", nil, text("early"))
		if _, onLoop := p.Inside.(*loopConn); onLoop != (s.loop != nil && !needed) {
			t.Errorf("needed %v: the connection is a %T", needed, p.Inside)
		}
		p.Message()
		converse(t, c, p)
	}
}

// TestRouteContext: the values of BaseContext arrive, its end does not.
func TestRouteContext(t *testing.T) {
	needLoops(t)
	s := siteServer(t, true, func(hs *http.Server) {
		hs.BaseContext = func(net.Listener) context.Context {
			ctx, cancel := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "base"))
			cancel()
			return ctx
		}
	})
	c, p := s.connect("/ws", nil)
	if p.Context.Value(ctxKey{}) != "base" || p.Context.Value(http.ServerContextKey) != s.Config || p.Context.Err() != nil {
		t.Errorf("context %v", p.Context)
	}
	converse(t, c, p)
}

// TestHeadTimeout: silent clients and those that trickle are cut, whoever reads.
func TestHeadTimeout(t *testing.T) {
	s := siteServer(t, direct, func(hs *http.Server) { hs.ReadHeaderTimeout = 60 * time.Millisecond })
	for _, sent := range []string{"", "GET /w", request("gyro.test", "/ws", nil)[:100]} {
		start := time.Now()
		nc := s.dial()
		_ = nc.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(nc, sent)
		got, err := io.ReadAll(nc)
		answered := !direct && strings.HasPrefix(string(got), "HTTP/1.1 400 ") // as net/http sees fit
		if len(got) > 0 && !answered || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: got %q, %v", sent, got, err)
		}
		if time.Since(start) < 50*time.Millisecond {
			t.Errorf("%q: closed after %v", sent, time.Since(start))
		}
		nc.Close()
	}
}

// descriptors are the process's own: numbers, and what they stand for.
func descriptors(t *testing.T) map[string]bool {
	t.Helper()
	const folder = "/proc/self/fd/"
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Skip(err)
	}
	all := make(map[string]bool)
	for _, e := range list {
		if link, err := os.Readlink(folder + e.Name()); err == nil { // the one of the folder is closed
			all[e.Name()+" "+link] = true
		}
	}
	return all
}

// opened counts the descriptors that were not there before. Of the others, connections of earlier tests may still
// end.
func opened(t *testing.T, before map[string]bool) (n int) {
	t.Helper()
	for d := range descriptors(t) {
		if !before[d] {
			n++
		}
	}
	return n
}

// TestListenerClose: nothing is left of connections in any state.
func TestListenerClose(t *testing.T) {
	needLoops(t)
	before := descriptors(t)
	for _, loopFirst := range []bool{false, true} {
		s := &testServer{t: t, peers: make(chan *testPeer, 10), loop: loop.New()}
		go s.loop.Run()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := front.Listen(ln, &http.Server{}, s, NewHandler(s, Config{}).Route("/"))
		var clients []net.Conn
		for _, sent := range []string{"", "GET ", "POST / HTTP/1.1\r\n", "POST / HTTP/1.1\r\n"} {
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(nc, sent)
			clients = append(clients, nc)
		}
		nc, err := l.Accept() // both ways are known to work now
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		// 2 descriptors each, less one that is closed; 2 of the listener, 2 of epoll.
		wait.Until(t, "all are accepted", func() bool { return opened(t, before) == 2*len(clients)-1+2+2 })
		if loopFirst {
			s.loop.Close()
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("again: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		for _, c := range clients {
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a client's connection ended with %v", err)
			}
			c.Close()
		}
		if !loopFirst {
			s.loop.Close()
		}
	}
	wait.Until(t, "no descriptors are left", func() bool { return opened(t, before) == 0 })
}

// TestNoLoop: while there is no loop, net/http gets everything.
func TestNoLoop(t *testing.T) {
	needLoops(t)
	s := siteServer(t, true, nil)
	s.noLoop.Store(true)
	c, _ := newClient(t, s.dial(), "/ws", nil)
	p := wait.Receive(t, "a peer", s.peers)
	if _, ok := p.Inside.(*streamConn); !ok {
		t.Errorf("the connection is a %T", p.Inside)
	}
	converse(t, c, p)
	s.noLoop.Store(false)
	s.loop.Close() // as when a node ends: the acceptor has to refuse
	if got := exchange(t, s, "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("got %q", got)
	}
}

// TestNoSockets: what loops cannot serve is net/http's.
func TestNoSockets(t *testing.T) {
	needLoops(t)
	unix, err := net.Listen("unix", t.TempDir()+"/gyro.sock")
	if err != nil {
		t.Skip(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range []net.Listener{unix, tcp} {
		s := &testServer{t: t, peers: make(chan *testPeer, 1)}
		s.runLoop()
		h := NewHandler(struct{ transport.Acceptor }{s}, Config{}) // its acceptor knows no loops
		s.Server = httptest.NewUnstartedServer(h)
		s.Listener.Close()
		s.Listener = front.Listen(ln, s.Config, s, h.Route("/"))
		s.Start()
		nc, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, _ := newClient(t, nc, "/", nil)
		converse(t, c, wait.Receive(t, "a peer", s.peers))
		s.Server.Close()
	}
}
