package sockjs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/testkit/peertest"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write writes messages as the core does.
func write(t *testing.T, p *peertest.Peer, messages ...string) {
	t.Helper()
	if err := p.Write(p.Frames(messages...)...); err != nil {
		t.Error(err)
	}
}

// testServer serves a handler at /s in memory, for virtual time. Connections become Peers.
type testServer struct {
	*peertest.Acceptor
	t      *testing.T
	pipes  *fronttest.Pipes
	client http.Client
}

func newServer(t *testing.T, cfg Config) *testServer {
	s := &testServer{t: t, Acceptor: peertest.NewAcceptor(), pipes: fronttest.NewPipes()}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return s.pipes.Dial(), nil }}
	s.client.Transport = transport
	cfg.Prefix = "/s"
	server := &http.Server{Handler: NewHandler(s, cfg), ReadTimeout: time.Second, WriteTimeout: 2 * time.Second}
	go func() { _ = server.Serve(s.pipes) }()
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
		time.Sleep(time.Second) // net/http lets refused clients read the answer before it closes
	})
	return s
}

// answer to a request. The body is closed with the test.
type answer struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// open sends a request and returns the answer as soon as it begins.
func (s *testServer) open(method, path, body string, header http.Header) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://sockjs/s"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for k, v := range header {
		r.Header[k] = v
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	return answer{res.StatusCode, res.Header, res.Body}
}

// ask sends a request and returns the whole answer.
func (s *testServer) ask(method, path, body string) (int, string) {
	s.t.Helper()
	res := s.open(method, path, body, nil)
	data, err := io.ReadAll(res.body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.status, string(data)
}

// stream reads frames of a streaming response.
type stream struct {
	t    *testing.T
	r    *bufio.Reader
	body io.Closer
	end  string // of a frame
	open func(frame string) string
}

func (s *testServer) stream(kind string) *stream {
	s.t.Helper()
	var res answer
	st := &stream{t: s.t, end: "\n"}
	switch kind {
	case "xhr_streaming":
		res = s.open("POST", "/0/a/xhr_streaming", "", nil)
		st.open = func(f string) string { return f }
	case "eventsource":
		res = s.open("GET", "/0/a/eventsource", "", nil)
		st.end = "\r\n\r\n"
		st.open = func(f string) string {
			return strings.ReplaceAll(strings.TrimPrefix(f, "data: "), "%25", "%")
		}
	}
	if res.status != http.StatusOK {
		s.t.Fatalf("status %d", res.status)
	}
	st.r, st.body = bufio.NewReader(res.body), res.body
	switch kind {
	case "xhr_streaming":
		st.want(strings.Repeat("h", 2048))
	case "eventsource":
		if b, _ := st.r.ReadString('\n'); b != "\r\n" {
			s.t.Fatalf("%q", b)
		}
	}
	return st
}

func (st *stream) next() string {
	st.t.Helper()
	var frame string
	for !strings.HasSuffix(frame, st.end) {
		part, err := st.r.ReadString('\n')
		frame += part
		if err != nil {
			st.t.Fatalf("%q, %v", frame, err)
		}
	}
	return st.open(strings.TrimSuffix(frame, st.end))
}

func (st *stream) want(frames ...string) {
	st.t.Helper()
	for _, want := range frames {
		if got := st.next(); got != want {
			st.t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func (st *stream) wantEnd() {
	st.t.Helper()
	if b, err := io.ReadAll(st.r); err != nil || len(b) > 0 {
		st.t.Fatalf("%q, %v", b, err)
	}
}

// TestMissingBody: a request whose body does not come ends when the server's time to read it is over, and
// opens no session.
func TestMissingBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{MaxBodySize: 1000})
		var group sync.WaitGroup
		for _, path := range []string{"POST /s/0/a/xhr", "POST /s/0/a/xhr_streaming", "GET /s/0/a/eventsource"} {
			group.Go(func() {
				nc := s.pipes.Dial()
				defer nc.Close()
				_, _ = io.WriteString(nc, path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
				if got, err := io.ReadAll(nc); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
					t.Errorf("%s: %q, %v", path, got, err)
				}
			})
		}
		group.Wait()
		if status, text := s.ask("POST", "/0/a/xhr", strings.Repeat("x", 1001)); status != http.StatusRequestEntityTooLarge {
			t.Error(status, text)
		}
		if len(s.Peers) > 0 {
			t.Error("a session was opened")
		}
	})
}

var streams = []string{"xhr_streaming", "eventsource"}

// odd has what an envelope could break.
const odd = "{\"a\":\"</script>%41\\n\u2028\"}"

func TestStreams(t *testing.T) {
	for _, kind := range streams {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Config{})
				st := s.stream(kind)
				st.want("o")
				p := peertest.Await(t, s.Peers)
				if p.Info.Name != "sockjs" || p.Info.Mode != transport.Bidirectional || p.Info.RemoteAddr == "" || p.Info.Header() == nil {
					t.Errorf("info %+v", p.Info)
				}
				if status, body := s.ask("POST", "/1/a/xhr_send", `["one","two"]`); status != 204 {
					t.Errorf("%d %s", status, body)
				}
				for _, want := range []string{"one", "two"} {
					if got := peertest.Await(t, p.Received); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
				time.Sleep(10 * time.Second) // longer than a request may take
				write(t, p, "x", odd)
				quoted, _ := json.Marshal(odd)
				var frame []string
				var got []string
				for len(got) < 2 {
					if err := json.Unmarshal([]byte(strings.TrimPrefix(st.next(), "a")), &frame); err != nil {
						t.Fatal(err)
					}
					got = append(got, frame...)
				}
				if got[0] != "x" || got[1] != odd {
					t.Errorf("got %q, want %s", got, quoted)
				}
				p.Conn.Close(protocol.DisconnectForceReconnect, p.Frames("last"))
				st.want(`a["last"]`, `c[3011,"force reconnect"]`)
				st.wantEnd()
				if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectForceReconnect) {
					t.Error(err)
				}
				if n, err := p.Conn.Write(p.Frames("late")); n > 0 || err == nil {
					t.Error("Write after the end")
				}
				if status, _ := s.ask("POST", "/1/a/xhr_send", `["late"]`); status != 404 {
					t.Errorf("send after the end: %d", status)
				}
			})
		})
	}
}

func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		poll := func(want string) {
			t.Helper()
			if status, body := s.ask("POST", "/0/a/xhr", ""); status != 200 || body != want+"\n" {
				t.Fatalf("%d %q, want %q", status, body, want)
			}
		}
		poll("o")
		p := peertest.Await(t, s.Peers)
		write(t, p, "one", "two") // while nobody polls
		poll(`a["one","two"]`)
		answer := make(chan string)
		go func() {
			_, body := s.ask("POST", "/0/a/xhr", "")
			answer <- body
		}()
		write(t, p, "three")
		if got := peertest.Await(t, answer); got != "a[\"three\"]\n" {
			t.Errorf("%q", got)
		}
		p.Conn.Close(protocol.DisconnectShutdown, p.Frames("last"))
		poll(`a["last"]`)
		poll(`c[3001,"shutdown"]`)
		if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectShutdown) {
			t.Error(err)
		}
	})
}

// A core that writes as fast as the transport lets it loses nothing, across polls and responses
// that reach their limit.
func TestNothingLost(t *testing.T) {
	for _, kind := range []string{"xhr", "xhr_streaming"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, Config{ResponseLimit: 10_000})
				const total = 300
				got := make(chan int)
				go func() {
					defer close(got)
					for n := 0; n < total; {
						_, body := s.ask("POST", "/0/a/"+kind, "")
						for frame := range strings.Lines(body) {
							if !strings.HasPrefix(frame, "a") {
								continue
							}
							var list []string
							if err := json.Unmarshal([]byte(frame[1:]), &list); err != nil {
								t.Error(err)
								return
							}
							for _, m := range list {
								got <- len(m)
								n++
							}
							if n == total {
								return
							}
						}
					}
				}()
				p := peertest.Await(t, s.Peers)
				size := func(n int) int { return 1 + n*n%50_000 }
				go func() {
					for n := range total {
						write(t, p, strings.Repeat("x", size(n)))
					}
					d := protocol.DisconnectShutdown
					p.Conn.Close(d, nil)
				}()
				for n := range total {
					if v, ok := <-got; !ok || v != size(n) {
						t.Fatalf("message %d has %d bytes, want %d", n, v, size(n))
					}
				}
			})
		})
	}
}

func TestWebSocket(t *testing.T) {
	a := peertest.NewAcceptor()
	s := httptest.NewServer(NewHandler(a, Config{Prefix: "/s"}))
	t.Cleanup(s.Close)
	dial := func() *wstest.Texts { return wstest.DialTexts(t, s.URL+"/s/0/a/websocket?format=protobuf", nil) }
	want := func(c *wstest.Texts, frames ...string) {
		t.Helper()
		for _, f := range frames {
			if got, code, _ := c.Next(); got != f {
				t.Fatalf("got %q, %d, want %q", got, code, f)
			}
		}
	}
	wantClose := func(c *wstest.Texts, want uint32) {
		t.Helper()
		if got, code, _ := c.Next(); code != want {
			t.Fatalf("%q, %d, want a Close frame with %d", got, code, want)
		}
	}
	c := dial()
	want(c, "o")
	p := peertest.Await(t, a.Peers)
	if p.Info.Name != "sockjs" || p.Info.Framer.Encoding() != protocol.JSON {
		t.Errorf("info %+v", p.Info)
	}
	for _, text := range []string{`["one","two"]`, ``, `"three"`} {
		c.Send(text)
	}
	for _, message := range []string{"one", "two", "three"} {
		if got := peertest.Await(t, p.Received); got != message {
			t.Errorf("got %q, want %q", got, message)
		}
	}
	write(t, p, "x", `{"a":"b"}`)
	want(c, `a["x"]`, `a["{\"a\":\"b\"}"]`)
	p.Conn.Close(protocol.DisconnectForceReconnect, p.Frames("last"))
	want(c, `a["last"]`, `c[3011,"force reconnect"]`)
	wantClose(c, 3011)
	if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectForceReconnect) {
		t.Error(err)
	}

	c = dial()
	want(c, "o")
	p = peertest.Await(t, a.Peers)
	c.Send(`{"no":"array"}`)
	want(c, `c[3501,"bad request"]`)
	wantClose(c, 3501)
	peertest.Await(t, p.Ended)
}

func TestBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{MaxBodySize: 100})
		for _, tt := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", "", "", 200},
			{"GET", "/", "", 200},
			{"GET", "/info", "", 200},
			{"OPTIONS", "/info", "", 204},
			{"POST", "/info", "", 405},
			{"GET", "/iframe.html", "", 404}, // there is no script
			{"GET", "/a", "", 404},
			{"GET", "/a/b", "", 404},
			{"GET", "/a/b/other", "", 404},
			{"GET", "/a.b/c/eventsource", "", 404},
			{"GET", "/a/b.c/eventsource", "", 404},
			{"GET", "//c/eventsource", "", 404},
			{"GET", "/a/" + strings.Repeat("b", 200) + "/eventsource", "", 404},
			{"GET", "/a/b/jsonp", "", 404},
			{"GET", "/a/b/xhr", "", 405},
			{"GET", "/a/b/xhr_streaming", "", 405},
			{"GET", "/a/b/xhr_send", "", 405},
			{"OPTIONS", "/a/b/xhr", "", 204},
			{"POST", "/a/b/eventsource", "", 405},
			{"GET", "/a/b/websocket", "", 400},
			{"GET", "/a/b/htmlfile?c=a", "", 404},
			{"POST", "/a/unknown/xhr_send", `["a"]`, 404},
			{"POST", "/a/known/xhr", "", 200},
			{"POST", "/a/known/xhr_send", "", 400},
			{"POST", "/a/known/xhr_send", "{", 400},
			{"POST", "/a/known/xhr_send", "[1]", 400},
			{"POST", "/a/known/xhr_send", `["a"`, 400},
			{"POST", "/a/known/xhr_send", `["` + strings.Repeat("a", 100) + `"]`, 413},
			{"POST", "/a/known/xhr_send", `[]`, 204},
		} {
			if status, body := s.ask(tt.method, tt.path, tt.body); status != tt.status {
				t.Errorf("%s %s %s: %d %.100s, want %d", tt.method, tt.path, tt.body, status, body, tt.status)
			}
		}
		if n := len(s.Peers); n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// A second request that receives is refused, and the first one goes on.
func TestSecondReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		st := s.stream("xhr_streaming")
		st.want("o")
		p := peertest.Await(t, s.Peers)
		if _, body := s.ask("POST", "/0/a/xhr", ""); body != "c[2010,\"Another connection still open\"]\n" {
			t.Errorf("%q", body)
		}
		write(t, p, "x")
		st.want(`a["x"]`)
	})
}

// A session is of no use to others than its client, whatever its cookies become.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strangers := 0
		s := newServer(t, Config{Identity: []string{"Authorization", "X-User"}, Stranger: func(*http.Request) { strangers++ }, ResponseLimit: 1})
		ann := http.Header{"Cookie": {"session=0123; balancer=a"}, "X-User": {"ann"}}
		if res := s.open("POST", "/0/id/xhr", "", ann); res.status != 200 {
			t.Fatal(res.status)
		}
		p := peertest.Await(t, s.Peers)
		refused := 0
		for _, of := range []http.Header{
			{}, {"X-User": {"ann"}}, {"Cookie": ann["Cookie"]}, {"Cookie": ann["Cookie"], "X-User": {"eve"}},
			{"Cookie": {"session=4567; balancer=b"}, "X-User": {"ann"}}, {"Cookie": {"session=a; balancer=0123"}, "X-User": {"ann"}},
			{"Cookie": ann["Cookie"], "X-User": {"ann"}, "Authorization": {"x"}},
		} {
			for _, path := range []string{"POST /0/id/xhr_send", "POST /0/id/xhr", "POST /0/id/xhr_streaming", "GET /0/id/eventsource"} {
				method, path, _ := strings.Cut(path, " ")
				if res := s.open(method, path, `["stranger"]`, of); res.status != 404 {
					t.Errorf("%v: %s is answered with %d", of, path, res.status)
				}
				refused++
			}
		}
		if strangers != refused {
			t.Errorf("%d strangers are told, not %d", strangers, refused)
		}
		for _, cookie := range []string{"session=0123", "balancer=b; session=0123", "balancer=b; session=4567", "session=4567; balancer=c", "session=0123"} {
			if res := s.open("POST", "/0/id/xhr_send", `["own"]`, http.Header{"Cookie": {cookie}, "X-User": {"ann"}}); res.status != 204 {
				t.Errorf("%s is answered with %d", cookie, res.status)
			}
			if got := peertest.Await(t, p.Received); got != "own" {
				t.Errorf("got %q", got)
			}
		}
		if res := s.open("POST", "/0/other/xhr", "", nil); res.status != 200 { // opened without cookies
			t.Fatal(res.status)
		}
		if res := s.open("POST", "/0/other/xhr_send", `[]`, http.Header{"Cookie": {"a=1"}}); res.status != 204 {
			t.Error(res.status)
		}
	})
}

// A session ends when its client leaves, when nobody polls, and when the client does not read.
func TestClientsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{DisconnectDelay: 10 * time.Second, WriteTimeout: time.Second})
		st := s.stream("xhr_streaming")
		st.want("o")
		p := peertest.Await(t, s.Peers)
		st.body.Close()
		if err := peertest.Await(t, p.Ended); err == nil || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("left: %v", err)
		}
		s.ask("POST", "/0/poll/xhr", "")
		if err := peertest.Await(t, peertest.Await(t, s.Peers).Ended); err == nil || !strings.Contains(err.Error(), "no request receives") {
			t.Errorf("does not poll: %v", err)
		}
		s.stream("xhr_streaming").want("o")
		p = peertest.Await(t, s.Peers)
		if _, err := p.Conn.Write(p.Frames(strings.Repeat("x", 1<<20))); err != nil {
			t.Error(err)
		}
		if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectWriteError) {
			t.Errorf("does not read: %v", err)
		}
	})
}

// How connections end: without a word, quietly, before anybody receives, and while a node shuts
// down.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{DisconnectDelay: 20 * time.Second}) // longer than a write may take
		st := s.stream("eventsource")
		st.want("o")
		p := peertest.Await(t, s.Peers)
		p.Conn.Close(protocol.DisconnectConnectionClosed, p.Frames("never sent"))
		st.wantEnd()
		peertest.Await(t, p.Ended)

		st = s.stream("eventsource")
		st.want("o")
		p = peertest.Await(t, s.Peers)
		p.Conn.Close(protocol.Disconnect{}, p.Frames("error reply"))
		st.want(`a["error reply"]`)
		st.wantEnd() // after the delay
		peertest.Await(t, p.Ended)

		s = newServer(t, Config{})
		s.ask("POST", "/0/b/xhr", "")
		p = peertest.Await(t, s.Peers)
		p.Conn.Close(protocol.DisconnectShutdown, nil)
		if err := peertest.Await(t, p.Ended); !errors.Is(err, protocol.DisconnectShutdown) { // after the delay
			t.Error(err)
		}

		s.Refuse = protocol.DisconnectShutdown
		st = s.stream("xhr_streaming")
		st.want("o", `c[3001,"shutdown"]`)
		st.wantEnd()
	})
}

// During a pause messages wait.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		st := s.stream("xhr_streaming")
		st.want("o")
		p := peertest.Await(t, s.Peers)
		p.Conn.Pause(true)
		sent := make(chan int)
		go func() {
			status, _ := s.ask("POST", "/0/a/xhr_send", `["a"]`)
			sent <- status
		}()
		write(t, p, "x")
		st.want(`a["x"]`)
		synctest.Wait()
		if len(p.Received) > 0 {
			t.Error("received during the pause")
		}
		p.Conn.Pause(false)
		if got, status := peertest.Await(t, p.Received), peertest.Await(t, sent); got != "a" || status != 204 {
			t.Error(got, status)
		}
		p.Conn.Pause(true)
		go func() {
			status, _ := s.ask("POST", "/0/a/xhr_send", `["a"]`)
			sent <- status
		}()
		p.Conn.Close(protocol.DisconnectShutdown, nil)
		st.want(`c[3001,"shutdown"]`)
		if status := peertest.Await(t, sent); status != 204 && status != 404 {
			t.Error(status)
		}
	})
}

// Limits hold for new sessions, not for the requests of those that there are.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 2
		s := newServer(t, Config{Admit: func(*http.Request) error {
			if left--; left < 0 {
				return errors.New("too many")
			}
			return nil
		}})
		for _, id := range []string{"a", "b"} {
			for _, want := range []string{"o\n", "a[\"x\"]\n"} {
				if status, body := s.ask("POST", "/0/"+id+"/xhr", ""); status != 200 || body != want {
					t.Fatalf("%d %s", status, body)
				}
				if want == "o\n" {
					write(t, peertest.Await(t, s.Peers), "x")
				}
			}
		}
		for _, path := range []string{"/0/c/xhr", "/0/c/xhr_streaming"} {
			if status, body := s.ask("POST", path, ""); status != 503 || body != "too many\n" {
				t.Errorf("%s: %d %q", path, status, body)
			}
		}
		if status, _ := s.ask("GET", "/0/c/websocket", ""); status != 503 {
			t.Errorf("websocket: %d", status)
		}
	})
}

// Pages of other origins cannot embed the page for iframes.
func TestFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{ScriptURL: "https://cdn.example/sockjs.js?a=1&b", AllowFrame: func(o string) bool { return o == "https://app.example:8443" }})
		for referer, status := range map[string]int{
			"": 403, "https://evil.example/": 403, "https://app.example:8443/page": 200, "https://app.example:8443": 200,
			"https://app.example:8443;evil/": 403, "app.example": 403, "https://app.example:8443@evil.example/": 403,
		} {
			res := s.open("GET", "/iframe-1.6.html", "", http.Header{"Referer": {referer}})
			body, err := io.ReadAll(res.body)
			if err != nil || res.status != status {
				t.Errorf("%q: %d, %v", referer, res.status, err)
			}
			if status == 200 {
				if csp := res.header.Get("Content-Security-Policy"); csp != "frame-ancestors https://app.example:8443" {
					t.Errorf("%q: %s", referer, csp)
				}
				if !bytes.Contains(body, []byte(`src="https://cdn.example/sockjs.js?a=1&amp;b"`)) {
					t.Errorf("%s", body)
				}
			}
		}
	})
}

// Write takes whole frames, as many as the stash has room for.
func TestWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var run []byte
		bounds := map[int]bool{0: true}
		for _, m := range rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.Just(strings.Repeat("\"\\", 9_000)))).Draw(t, "messages") {
			f := stringFramer{}.Frame([]byte(m))
			var back string
			if err := json.Unmarshal(f[:len(f)-1], &back); err != nil || back != strings.ToValidUTF8(m, "\uFFFD") {
				t.Fatalf("%q is %q, %v", m, f, err)
			}
			run = append(run, f...)
			bounds[len(run)] = true
		}
		held := rapid.IntRange(0, stashSize).Draw(t, "held")
		size := whole(run, held)
		switch {
		case !bounds[size]:
			t.Fatalf("%d is no bound", size)
		case held == 0 && size == 0 && len(run) > 0:
			t.Fatal("an empty stash takes nothing")
		case held > 0 && held+size > stashSize:
			t.Fatalf("%d bytes in the stash", held+size)
		}
	})
}
