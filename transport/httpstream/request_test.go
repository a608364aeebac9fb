package httpstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front"
)

// head reads the head of an answer.
func head(t testing.TB, nc net.Conn) *answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return (*answer)(resp)
}

// requests are what clients send, by name, with the status that they get. k is the path.
func requests(k Kind) map[string]struct {
	sent   string
	status int
} {
	type request = struct {
		sent   string
		status int
	}
	path := "/connection/" + kinds[k].name
	events, uni := kinds[k].events(), kinds[k].mode != 1
	text := `{"id":1,"connect":{}}`
	if uni {
		text = `{}`
	}
	post := func(body, fields string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %d\r\n\r\n%s", path, fields, len(body), body)
	}
	get := func(query, fields string) string {
		return fmt.Sprintf("GET %s%s HTTP/1.1\r\nHost: a\r\n%s\r\n", path, query, fields)
	}
	when := func(cond bool, then, otherwise int) int {
		if cond {
			return then
		}
		return otherwise
	}
	return map[string]request{
		"POST":                {post(text, ""), 200},
		"POST of the limit":   {post(text+strings.Repeat(" ", 65536-len(text)), ""), 200},
		"POST too large":      {post(text+strings.Repeat(" ", 65537-len(text)), ""), 413},
		"POST much too large": {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 123456789\r\n\r\n{}", path), 413},
		"empty POST":          {post("", ""), when(uni, 400, 200)},
		"malformed POST":      {post("{", ""), when(uni, 400, 200)},
		"null":                {post("null", ""), 200},
		"POST without length": {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\n\r\n", path), when(uni, 400, 200)},
		"half a POST":         {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{}", path), 499},
		"chunked POST":        {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", path), 200},
		"large chunked POST": {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n11170\r\n%s\r\n0\r\n\r\n",
			path, strings.Repeat(" ", 70000)), 413},
		"HTTP/1.0":               {strings.Replace(post(text, ""), "HTTP/1.1", "HTTP/1.0", 1), 200},
		"HTTP/1.0 to keep alive": {strings.Replace(post(text, "Connection: keep-alive\r\n"), "HTTP/1.1", "HTTP/1.0", 1), 200},
		"close":                  {post(text, "Connection: close\r\n"), 200},
		"100-continue":           {post(text, "Expect: 100-continue\r\n"), 200},
		"100-continue too large": {fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n", path), 413},
		"other expectation":      {post(text, "Expect: something\r\n"), 417},
		"octet-stream":           {post(text, "Content-Type: application/octet-stream\r\n"), 200},
		"text":                   {post(text, "Content-Type: text/plain\r\n"), 200},
		"allowed origin":         {post(text, "Origin: https://good.test\r\n"), 200},
		"foreign origin":         {post(text, "Origin: https://evil.test\r\n"), 200},
		"HEAD":                   {strings.Replace(get("", ""), "GET", "HEAD", 1), 405},
		"PUT":                    {strings.Replace(post(text, ""), "POST", "PUT", 1), 405},
		"large PUT":              {strings.Replace(post(strings.Repeat(" ", 300000), ""), "POST", "PUT", 1), 405},
		"OPTIONS": {strings.Replace(get("", "Origin: https://good.test\r\nAccess-Control-Request-Method: POST\r\n"+
			"Access-Control-Request-Headers: content-type,x-a\r\n"), "GET", "OPTIONS", 1), when(events, 405, 204)},
		"OPTIONS of nobody":    {strings.Replace(get("", ""), "GET", "OPTIONS", 1), when(events, 405, 204)},
		"GET":                  {get("?cf_connect="+queryEscape(text), ""), when(events, 200, 405)},
		"GET of an origin":     {get("?cf_connect="+queryEscape(text), "Origin: https://good.test\r\nAccess-Control-Request-Headers: null\r\n"), when(events, 200, 405)},
		"GET without query":    {get("", ""), when(events, when(uni, 200, 400), 405)},
		"GET with empty query": {get("?cf_connect=&a=b", ""), when(events, when(uni, 200, 400), 405)},
		"malformed GET":        {get("?cf_connect=%7B", ""), when(events, when(uni, 400, 200), 405)},
		"GET of no query":      {get("?cf_connect=%zz", ""), when(events, when(uni, 200, 400), 405)},
		"GET with a body":      {strings.Replace(get("?cf_connect="+queryEscape(text), ""), "\r\n\r\n", "\r\nContent-Length: 2\r\n\r\n{}", 1), when(events, 200, 405)},
		"no host":              {strings.Replace(post(text, ""), "Host: a\r\n", "", 1), 400},
		"two lengths":          {post(text, "Content-Length: 5\r\n"), 400},
		"garbage":              {"\x00\xff garbage\r\n\r\n", 400},
		"nothing":              {"", 0},
	}
}

var dates = regexp.MustCompile(`Date: [^\r]+`)

// readStatus reads the head of the answer, which may follow that of a 100. It returns the status, 0 if
// there is no answer.
func readStatus(r *bufio.Reader) (status int) {
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return status
		case strings.HasPrefix(line, "HTTP/1."):
			status, _ = strconv.Atoi(line[len("HTTP/1.1 "):][:3])
		case line == "\r\n" && status != http.StatusContinue:
			return status
		}
	}
}

// exchange sends everything and returns all that comes back; a stream is closed at once.
func exchange(t *testing.T, s *testServer, sent string) string {
	t.Helper()
	nc := s.dial().(*net.TCPConn)
	go func() {
		_, _ = io.WriteString(nc, sent) // a reset may come before all is sent
		if sent == "" || strings.Contains(sent, "Content-Length: 50\r\n") {
			_ = nc.CloseWrite()
		}
	}()
	var answer strings.Builder
	r := bufio.NewReader(io.TeeReader(nc, &answer))
	switch readStatus(r) {
	case 0:
	case http.StatusOK:
		p := wait.Receive(t, "a peer", s.peers)
		p.Conn.Close(protocol.DisconnectShutdown, [][]byte{p.frame(`{}`)})
	default:
		_ = nc.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, r) // a reset comes after the answer
	head, body, _ := strings.Cut(dates.ReplaceAllString(answer.String(), "Date: "), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	sort.Strings(lines[1:])
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// TestRequests: each request has its answer, and the ways to the handler make no difference.
func TestRequests(t *testing.T) {
	cfg := Config{AllowOrigin: func(q *front.Request) bool { return q.Get("Origin") == "https://good.test" }}
	for k := range streams {
		plain, hijack, route := newServer(t, Kind(k), byGoroutines, cfg, nil), newServer(t, Kind(k), byHijack, cfg, nil), newServer(t, Kind(k), byRoute, cfg, nil)
		for name, c := range requests(Kind(k)) {
			t.Run(kinds[k].name+"/"+name, func(t *testing.T) {
				want := exchange(t, plain, c.sent)
				if status := readStatus(bufio.NewReader(strings.NewReader(want))); status != c.status {
					t.Errorf("status %d, want %d: %q", status, c.status, want)
				}
				for way, s := range map[string]*testServer{"hijack": hijack, "route": route} {
					if got := exchange(t, s, c.sent); got != want {
						t.Errorf("%s: got\n%.1500s\nwant\n%.1500s", way, got, want)
					}
				}
				checkCORS(t, name, want)
			})
		}
	}
}

// TestSlowBody: a client that sends its request slowly gets an answer when its time is over, also if
// nobody needs the body.
func TestSlowBody(t *testing.T) {
	methods := map[Kind]string{HTTPStream: "POST", SSE: "GET", UniPoll: "GET"}
	for _, w := range []way{byGoroutines, byHijack, byRoute} {
		for k, method := range methods {
			t.Run(kinds[k].name+"/"+w.String(), func(t *testing.T) {
				t.Parallel()
				limited := func(head, request time.Duration) (*testServer, net.Conn) {
					s := newServer(t, k, w, Config{}, func(s *testServer) {
						s.edit = func(hs *http.Server) { hs.ReadHeaderTimeout, hs.ReadTimeout = head, request }
					})
					return s, s.dial()
				}
				// There is no answer if the time is over before the head has come, as on a busy machine.
				status := 0
				for head := 100 * time.Millisecond; status == 0 && head < patience; head *= 2 {
					s, nc := limited(head, head/2) // on a loop, the first bounds the whole request
					fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{", method, s.path())
					status = readStatus(bufio.NewReader(nc))
					if _, err := io.Copy(io.Discard, nc); err != nil && !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("the connection goes on: %v", err)
					}
				}
				if status != statusClosed {
					t.Errorf("status %d", status)
				}
				s, nc := limited(100*time.Millisecond, patience) // half a head, which may come when the time is over
				fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: a\r\nContent-", method, s.path())
				if b, err := io.ReadAll(nc); len(b) > 0 && w == byRoute && k != UniPoll || err != nil && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("got %q, %v", b, err)
				}
			})
		}
	}
}

// TestMiddleware: a wrapper of the http.ResponseWriter need not know of streams.
func TestMiddleware(t *testing.T) {
	type bare struct{ http.ResponseWriter }
	for name, c := range map[string]struct {
		wrap   func(w http.ResponseWriter) http.ResponseWriter
		onLoop bool
		status int
	}{
		"Unwrap": {func(w http.ResponseWriter) http.ResponseWriter { return unwrapping{bare{w}, w} }, true, http.StatusOK},
		"encoding": {func(w http.ResponseWriter) http.ResponseWriter {
			w.Header().Set("Content-Encoding", "test")
			return unwrapping{bare{w}, w}
		}, false, http.StatusOK},
		"no Hijack": {func(w http.ResponseWriter) http.ResponseWriter { return direct{bare{w}, w.(server)} }, false, http.StatusOK},
		"none":      {func(w http.ResponseWriter) http.ResponseWriter { return bare{w} }, false, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, UniHTTPStream, byHijack, Config{}, func(s *testServer) {
				s.edit = func(hs *http.Server) {
					next := hs.Handler
					hs.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("X-Middleware", "was here")
						next.ServeHTTP(c.wrap(w), r)
					})
				}
			})
			resp := s.open(s.usual())
			if resp.StatusCode != c.status || resp.Header.Get("X-Middleware") == "" {
				t.Fatalf("status %d, %v", resp.StatusCode, resp.Header)
			}
			if c.status != http.StatusOK {
				return
			}
			p := wait.Receive(t, "a peer", s.peers)
			if _, ok := p.Inside.(*loopConn); ok != c.onLoop {
				t.Errorf("the connection is a %T", p.Inside)
			}
			p.write("{}")
			expect(t, resp.Body, "{}\n")
			p.Conn.Close(protocol.DisconnectShutdown, nil)
			expectEnd(t, resp.Body)
		})
	}
}

// server has what a stream needs of the http.ResponseWriter of a server.
type server interface {
	http.Flusher
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// unwrapping and direct are wrappers with further methods.
type (
	unwrapping struct {
		http.ResponseWriter
		inner http.ResponseWriter
	}
	direct struct {
		http.ResponseWriter
		server
	}
)

func (u unwrapping) Unwrap() http.ResponseWriter { return u.inner }

// TestGate: a stream passes the gate once, with the status of its head.
func TestGate(t *testing.T) {
	for _, w := range []way{byGoroutines, byHijack, byHTTP2} {
		t.Run(w.String(), func(t *testing.T) {
			left := make(chan int, 1)
			s := newServer(t, UniSSE, w, Config{}, func(s *testServer) { s.gate = gate(left) })
			r, _, p := s.connect()
			expect(t, r, "\r\n")
			p.Conn.Close(protocol.DisconnectShutdown, nil)
			expectEnd(t, r)
			if status := wait.Receive(t, "Leave", left); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		})
	}
	left := make(chan int, 1)
	s := newServer(t, UniSSE, byRoute, Config{}, func(s *testServer) { s.gate = gate(left) })
	s.connect()
	if status := wait.Receive(t, "Leave", left); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// gate notes the status of who leaves.
type gate chan int

func (gate) Enter(*front.Request) *front.Refusal  { return nil }
func (g gate) Leave(_ *front.Request, status int) { g <- status }

func checkCORS(t *testing.T, name, answer string) {
	t.Helper()
	for line, names := range map[string][]string{
		"Access-Control-Allow-Origin: https://good.test": {"allowed origin", "GET of an origin", "OPTIONS"},
		"Access-Control-Allow-Credentials: true":         {"allowed origin", "GET of an origin", "OPTIONS"},
		"Access-Control-Allow-Headers: content-type,x-a": {"OPTIONS"},
	} {
		want := false
		for _, n := range names {
			want = want || n == name
		}
		if got := strings.Contains(answer, line+"\r\n"); got != want {
			t.Errorf("%q: %v in %q", line, got, answer)
		}
	}
	if name == "OPTIONS" && strings.Contains(answer, " 204 ") && (!strings.Contains(answer, "Access-Control-Max-Age: 300\r\n") ||
		!strings.Contains(answer, "Access-Control-Allow-Methods: POST, OPTIONS\r\n")) {
		t.Errorf("answer to OPTIONS: %q", answer)
	}
	if _, body, _ := strings.Cut(answer, "\r\n\r\n"); (strings.Contains(answer, " 405 ") || strings.Contains(answer, " 413 ")) && body != "" {
		t.Errorf("body %q", body)
	}
}
