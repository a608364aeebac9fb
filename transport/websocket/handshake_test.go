package websocket

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

func TestHandshakeRefused(t *testing.T) {
	s := newServer(t, Config{})
	valid := request("gyro.test", "/", nil)
	for _, tt := range []struct {
		name, old, new string
		status         int
	}{
		{"POST", "GET /", "POST /", 405},
		{"HEAD", "GET /", "HEAD /", 405},
		{"HTTP/1.0", "HTTP/1.1", "HTTP/1.0", 400},
		{"no Connection", "Connection: Upgrade\r\n", "", 400},
		{"other Connection", "Connection: Upgrade", "Connection: keep-alive", 400},
		{"no Upgrade", "Upgrade: websocket\r\n", "", 400},
		{"other Upgrade", "Upgrade: websocket", "Upgrade: h2c", 400},
		{"no version", "Sec-Websocket-Version: 13\r\n", "", 400},
		{"version 8", "Version: 13", "Version: 8", 400},
		{"no key", "Sec-Websocket-Key: " + testKey + "\r\n", "", 400},
		{"short key", testKey, "c2hvcnQ=", 400},
		{"bad key", testKey, "dGhlIHNhbXBsZSBub25jZQ!!", 400},
		{"foreign origin", "\r\n\r\n", "\r\nOrigin: https://evil.test\r\n\r\n", 403},
		{"null origin", "\r\n\r\n", "\r\nOrigin: null\r\n\r\n", 403},
		{"broken origin", "\r\n\r\n", "\r\nOrigin: http://[\r\n\r\n", 403},
		{"body", "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"body to come", "\r\n\r\n", "\r\nContent-Length: 300000\r\n\r\n{", 400},
		{"chunked body", "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400},
		{"extensions", "\r\n\r\n", "\r\nSec-WebSocket-Extensions: a;;\r\n\r\n", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc := s.dial()
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(patience))
			req := strings.Replace(valid, tt.old, tt.new, 1)
			if req == valid {
				t.Fatal("the case changes nothing")
			}
			_, _ = io.WriteString(nc, req)
			method, _, _ := strings.Cut(req, " ") // which decides on whether a body follows
			resp, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if v := resp.Header.Get("Sec-WebSocket-Version"); v != "13" {
				t.Errorf("Sec-WebSocket-Version %q", v)
			}
		})
	}
	select {
	case <-s.peers:
		t.Error("a refused client was accepted")
	default:
	}
}

func TestHandshakeChoices(t *testing.T) {
	for _, tt := range []struct {
		name, target string
		header       http.Header
		encoding     protocol.Encoding
		subprotocol  string
		nativePing   bool
	}{
		{name: "plain", target: "/"},
		{name: "format", target: "/?format=protobuf", encoding: protocol.Protobuf},
		{name: "cf_protocol", target: "/?cf_protocol=protobuf", encoding: protocol.Protobuf},
		{name: "other format", target: "/?format=json&cf_protocol=json"},
		{name: "native pings", target: "/?cf_ws_frame_ping_pong=true", nativePing: true},
		{name: "native pings other value", target: "/?cf_ws_frame_ping_pong=1"},
		{name: "protobuf", target: "/", header: http.Header{"Sec-Websocket-Protocol": {"centrifuge-protobuf"}}, encoding: protocol.Protobuf, subprotocol: "centrifuge-protobuf"},
		{name: "json", target: "/", header: http.Header{"Sec-Websocket-Protocol": {"centrifuge-json"}}, subprotocol: "centrifuge-json"},
		{name: "client's order", target: "/", header: http.Header{"Sec-Websocket-Protocol": {"x, centrifuge-json", "centrifuge-protobuf"}}, subprotocol: "centrifuge-json"},
		{name: "json does not cancel the query", target: "/?format=protobuf", header: http.Header{"Sec-Websocket-Protocol": {"centrifuge-json"}}, encoding: protocol.Protobuf, subprotocol: "centrifuge-json"},
		{name: "case matters", target: "/", header: http.Header{"Sec-Websocket-Protocol": {"Centrifuge-Protobuf"}}},
		{name: "unknown", target: "/", header: http.Header{"Sec-Websocket-Protocol": {"chat"}}},
		{name: "lists in fields", target: "/", header: http.Header{"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"h2c, WebSocket"}}},
		{name: "same origin", target: "/", header: http.Header{"Origin": {"https://GYRO.test"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, Config{})
			c, answer := newClient(t, s.dial(), tt.target, tt.header)
			p := wait.Receive(t, "a peer", s.peers)
			if got := answer.Get("Sec-WebSocket-Accept"); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // RFC 6455 1.3
				t.Errorf("Sec-WebSocket-Accept %q", got)
			}
			if got := answer.Get("Sec-WebSocket-Protocol"); got != tt.subprotocol {
				t.Errorf("subprotocol %q, want %q", got, tt.subprotocol)
			}
			if got := p.Info.Framer.Encoding(); got != tt.encoding {
				t.Errorf("encoding %v, want %v", got, tt.encoding)
			}
			if p.Info.NativePing != tt.nativePing || p.Info.Name != "websocket" || p.Info.RemoteAddr != c.nc.LocalAddr().String() || p.Info.Header().Get("Upgrade") == "" {
				t.Errorf("info %+v", p.Info)
			}
			c.nc.Close()
			p.ClosedWith()
		})
	}
}

func TestHandshakeCompression(t *testing.T) {
	offer := http.Header{"Sec-Websocket-Extensions": {"permessage-deflate; client_max_window_bits"}}
	for _, on := range []bool{true, false} {
		s := newServer(t, Config{Compression: on})
		c, answer := newClient(t, s.dial(), "/", offer)
		p := wait.Receive(t, "a peer", s.peers)
		want := ""
		if on {
			want = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
		}
		if got := answer.Get("Sec-WebSocket-Extensions"); got != want {
			t.Errorf("compression %v: extensions %q", on, got)
		}
		c.nc.Close()
		p.ClosedWith()
	}
}

func TestFramersAreShared(t *testing.T) {
	s := newServer(t, Config{Compression: true})
	offer := http.Header{"Sec-Websocket-Extensions": {"permessage-deflate"}}
	seen := map[any]int{}
	for range 2 {
		for _, target := range []string{"/", "/?format=protobuf"} {
			for _, h := range []http.Header{nil, offer} {
				c, p := s.connect(target, h)
				seen[p.Info.Framer]++
				c.nc.Close()
				p.ClosedWith()
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d framers for 4 kinds of connections", len(seen))
	}
}

func TestCheckOrigin(t *testing.T) {
	s := newServer(t, Config{CheckOrigin: func(q *front.Request) bool { return q.Get("Origin") == "https://a.test" }})
	c, p := s.connect("/", http.Header{"Origin": {"https://a.test"}})
	c.nc.Close()
	p.ClosedWith()
}

type ctxKey struct{}

// TestMiddleware checks that what middleware leaves in context and header
// arrives, and that the context outlives the request.
func TestMiddleware(t *testing.T) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	s.runLoop()
	h := NewHandler(s, Config{})
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Trace", "7")
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ctxKey{}, "alice")))
	}))
	s.Start() // without a route, which passes middleware by
	t.Cleanup(s.Server.Close)
	c, answer := newClient(t, s.dial(), "/", nil)
	p := wait.Receive(t, "a peer", s.peers)
	c.send(text("1"))
	p.Message()
	if p.Context.Value(ctxKey{}) != "alice" || p.Context.Err() != nil {
		t.Errorf("context %v, %v", p.Context.Value(ctxKey{}), p.Context.Err())
	}
	if answer.Get("X-Trace") != "7" {
		t.Errorf("header %v", answer)
	}
	c.nc.Close()
	p.ClosedWith()
}

func TestNoHijacker(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {testKey},
	}
	w := httptest.NewRecorder()
	NewHandler(&testServer{t: t}, Config{}).ServeHTTP(w, r)
	if w.Code != 500 {
		t.Errorf("status %d", w.Code)
	}
}

// TestSlowHandshake: the bound of a client that trickles its request is
// http.Server's.
func TestSlowHandshake(t *testing.T) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	s.Server = httptest.NewUnstartedServer(NewHandler(s, Config{}))
	s.Server.Config.ReadHeaderTimeout = 50 * time.Millisecond
	s.Server.Start()
	defer s.Server.Close()
	nc := s.dial()
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n")
	if _, err := io.ReadAll(nc); os.IsTimeout(err) {
		t.Errorf("connection not closed: %v", err)
	}
}

// TestServerTimeouts: deadlines of http.Server do not outlast the handshake.
func TestServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{t: t, peers: make(chan *testPeer, 1), pipes: fronttest.NewPipes()}
		site := fronttest.Serve(s.pipes, NewHandler(s, Config{}))
		defer site.Close()
		c, p := s.connect("/", nil)
		_ = c.nc.SetDeadline(time.Time{})
		time.Sleep(time.Hour)
		c.send(text("still here"))
		p.Message()
		p.write("so am I")
		c.expect(text("so am I"))
		c.nc.Close()
		p.ClosedWith()
	})
}

func TestUnixSocket(t *testing.T) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	l, err := net.Listen("unix", t.TempDir()+"/gyro.sock")
	if err != nil {
		t.Skip(err)
	}
	s.Server = httptest.NewUnstartedServer(NewHandler(s, Config{}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Server.Close()
	nc, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, _ := newClient(t, nc, "/", nil)
	p := wait.Receive(t, "a peer", s.peers)
	converse(t, c, p)
}

// withRequest calls f with a request of the usual client as a loop reads it.
func withRequest(tb testing.TB, f func(q *front.Request)) {
	s := &testServer{t: tb, peers: make(chan *testPeer, 1)}
	s.runLoop()
	if s.loop == nil {
		tb.Skip("loops read no requests here")
	}
	h := NewHandler(s, Config{})
	s.Server = httptest.NewUnstartedServer(h)
	route := h.Route("/")
	route.Take = func(a *front.Arrival) { f(a.Request) }
	s.Listener = front.Listen(s.Listener, s.Config, s, route)
	s.Start()
	tb.Cleanup(s.Server.Close)
	c, _ := newClient(tb, s.dial(), "/", http.Header{"Sec-Websocket-Protocol": {"centrifuge-protobuf"}})
	c.nc.Close() // it is net/http's by now: f has returned
	wait.Receive(tb, "a peer", s.peers).ClosedWith()
}

// TestAnswers: a handshake is answered in the same way with and without http.Header.
func TestAnswers(t *testing.T) {
	for _, hs := range []handshake{
		{}, {subprotocol: "centrifuge-json"}, {extensions: "permessage-deflate"},
		{subprotocol: "centrifuge-protobuf", extensions: "permessage-deflate; " + strings.Repeat("x", 100)},
	} {
		hs.accept, _ = acceptKey(testKey)
		header := http.Header{}
		hs.setHeader(header)
		if got, want := string(hs.appendAnswer(nil)), string(hs.answer(header)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestAgreeAllocations: agreeing on a connection leaves no garbage.
func TestAgreeAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	h, b := NewHandler(nil, Config{}), make([]byte, 0, maxAnswer)
	withRequest(t, func(q *front.Request) {
		if n := testing.AllocsPerRun(100, func() {
			if hs, refused := h.agree(q); refused != nil || len(hs.appendAnswer(b)) > maxAnswer {
				t.Error("refused")
			}
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// BenchmarkAgree is a handshake without the reading of its request.
func BenchmarkAgree(b *testing.B) {
	h, buf := NewHandler(nil, Config{}), make([]byte, 0, maxAnswer)
	onLoops = true
	defer func() { onLoops = false }()
	withRequest(b, func(q *front.Request) {
		b.ReportAllocs()
		for b.Loop() {
			hs, refused := h.agree(q)
			if refused != nil {
				b.Error("refused")
			}
			_ = hs.appendAnswer(buf)
		}
	})
}
