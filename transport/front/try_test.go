package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport"
)

// trySite is a front on two loops with a route at /try, which does what the body says: "move" moves
// to the second loop, "wait" has Answer do it, "net" leaves it to net/http, "panic" panics, a number
// is a status.
type trySite struct {
	t      *testing.T
	loops  [2]*stepLoop
	ln     *Listener
	tried  []string     // number of the loop and body
	passed atomic.Int64 // requests in the gate
}

func newTrySite(t *testing.T, edit func(*http.Server)) *trySite {
	s := &trySite{t: t, loops: [2]*stepLoop{newStepLoop(), newStepLoop()}}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "net/http") }),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if edit != nil {
		edit(server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.ln = Listen(ln, server, watching{next: func() transport.Loop { return s.loops[0] }}, Route{
		Method: http.MethodPost, Path: "/try", ContentType: "a/b", Gate: s,
		Check: func(q *Request) (any, bool) { return nil, q.ContentLength() < 1000 }, Try: s.try,
		Answer: func(_ context.Context, _ *Request, _ any, body, out []byte) (int, []byte) {
			if string(body) == "net" {
				return 0, out
			}
			return http.StatusOK, append(out, "goroutine"...)
		},
		Fields: func(q *Request, head []byte) []byte {
			return append(append(append(head, "X-Echo: "...), q.Get("X-Echo")...), "\r\n"...)
		},
	})
	served := make(chan error)
	go func() { served <- server.Serve(s.ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		s.step()
		<-served
	})
	if s.ln.acceptor == nil {
		t.Skip("loops watch no sockets here")
	}
	return s
}

func (s *trySite) Enter(*Request) *Refusal { s.passed.Add(1); return nil }
func (s *trySite) Leave(*Request, int)     { s.passed.Add(-1) }

func (s *trySite) try(l transport.Loop, q *Request, body []byte) (status int, next transport.Loop) {
	at := 0
	if l == transport.Loop(s.loops[1]) {
		at = 1
	}
	s.tried = append(s.tried, fmt.Sprint(at, " ", string(body)))
	if q.RemoteAddr == "" || q.Path != "/try" {
		s.t.Errorf("%+v", q)
	}
	switch text := string(body); text {
	case "move":
		if at == 0 {
			s.passed.Add(-1)
			return 0, s.loops[1]
		}
	case "wait", "net":
		s.passed.Add(-1)
		return 0, nil
	case "panic":
		panic("test")
	case "404":
		return http.StatusNotFound, nil
	}
	return http.StatusNoContent, nil
}

// step lets the loops read, and do all that is posted.
func (s *trySite) step() {
	for _, l := range s.loops {
		l.ready()
	}
	for len(s.loops[0].posts)+len(s.loops[1].posts) > 0 {
		for _, l := range s.loops {
			for len(l.posts) > 0 {
				(<-l.posts)()
			}
		}
	}
}

func (s *trySite) intake(i int) *intake { return s.ln.intake(s.loops[i]) }

// visitor is a client of a trySite.
type visitor struct {
	*trySite
	net.Conn
	r *bufio.Reader
}

func (s *trySite) open() *visitor {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(wait.Limit))
	(<-s.loops[0].posts)()
	return &visitor{s, nc, bufio.NewReader(nc)}
}

func tryRequest(echo, body string) string {
	return fmt.Sprintf("POST /try HTTP/1.1\r\nHost: a\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n%s", echo, len(body), body)
}

// send writes, and lets the loops work.
func (v *visitor) send(text string) {
	v.t.Helper()
	if _, err := io.WriteString(v.Conn, text); err != nil {
		v.t.Fatal(err)
	}
	v.step()
}

// expect reads an answer.
func (v *visitor) expect(status int, echo, body string) {
	v.t.Helper()
	res, err := http.ReadResponse(v.r, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != status || string(got) != body || res.Header.Get("X-Echo") != echo || res.Header.Get("Date") == "" {
		v.t.Fatalf("got %v, %q, %v; want %d, %q, %q", res, got, err, status, echo, body)
	}
}

func (v *visitor) expectEnd() {
	v.t.Helper()
	if b, err := io.ReadAll(v.r); len(b) > 0 || err != nil {
		v.t.Fatalf("got %q, %v; want the end", b, err)
	}
}

// TestTry: a loop answers the requests of a connection one after the other, wherever their bytes are
// split, and on whichever loop.
func TestTry(t *testing.T) {
	s := newTrySite(t, nil)
	for range 50 {
		v := s.open()
		var text string
		var want []string
		s.tried = nil
		at := 0
		bodies := []string{"move", "404", "", "a", strings.Repeat("b", 999)}
		n := 1 + rand.IntN(8)
		echoes := make([]string, n)
		for i := range n {
			body := bodies[rand.IntN(len(bodies))]
			echoes[i] = []string{"x", "y"}[rand.IntN(2)]
			text += tryRequest(echoes[i], body)
			if body == "move" && at == 0 {
				want = append(want, "0 move")
				at = 1
			}
			want = append(want, fmt.Sprint(at, " ", body))
		}
		for len(text) > 0 {
			size := 1 + rand.IntN(len(text))
			v.send(text[:size])
			text = text[size:]
		}
		if fmt.Sprint(s.tried) != fmt.Sprint(want) {
			t.Fatalf("tried %q, want %q", s.tried, want)
		}
		answered := want[:0]
		for _, w := range want {
			if w != "0 move" {
				answered = append(answered, w)
			}
		}
		for i, w := range answered {
			if w[2:] == "404" {
				v.expect(http.StatusNotFound, echoes[i], "Not Found\n")
			} else {
				v.expect(http.StatusNoContent, echoes[i], "")
			}
		}
		v.Close()
		s.step()
	}
	for i := range s.loops {
		if in := s.intake(i); in.buffered != 0 || in.idle.oldest != nil || in.waiting.oldest != nil || in.partial.oldest != nil || len(s.loops[i].watchers) > 0 {
			t.Errorf("loop %d: %+v, %d watchers", i, in, len(s.loops[i].watchers))
		}
	}
	if s.passed.Load() != 0 {
		t.Errorf("%d requests have not left the gate", s.passed.Load())
	}
}

// TestTryLeaves: what the loop cannot answer is answered by a goroutine or by net/http, with
// everything that was received, and once.
func TestTryLeaves(t *testing.T) {
	s := newTrySite(t, nil)
	for _, c := range []struct {
		text, body string
		echo       string
	}{
		{tryRequest("z", "wait"), "goroutine", "z"},
		{tryRequest("z", "net"), "net/http", ""},
		{tryRequest("z", strings.Repeat("c", 1000)), "net/http", ""},
		{"GET /other HTTP/1.1\r\nHost: a\r\n\r\n", "net/http", ""},
		{strings.Replace(tryRequest("z", "a"), "\r\n", "\r\nConnection: close\r\n", 1), "net/http", ""},
	} {
		v := s.open()
		v.send(tryRequest("x", "a"))
		v.expect(http.StatusNoContent, "x", "")
		v.send(c.text[:30])
		v.send(c.text[30:])
		v.expect(http.StatusOK, c.echo, c.body)
		v.Close()
		s.step()
	}
	v := s.open()
	v.send(tryRequest("x", "a") + tryRequest("y", "wait") + tryRequest("z", "b"))
	v.expect(http.StatusNoContent, "x", "")
	v.expect(http.StatusOK, "y", "goroutine")
	v.expect(http.StatusOK, "z", "goroutine")
	if n := len(s.loops[0].watchers); n != 0 {
		t.Errorf("%d watchers are left", n)
	}
}

// TestTryTakesTurns: of several requests that came at once, a turn answers one, and nothing more is
// read until all are answered.
func TestTryTakesTurns(t *testing.T) {
	s := newTrySite(t, nil)
	v := s.open()
	if _, err := io.WriteString(v.Conn, tryRequest("1", "a")+tryRequest("2", "b")+tryRequest("3", "c")); err != nil {
		t.Fatal(err)
	}
	ready := func() {
		for _, w := range s.loops[0].watchers {
			w.Ready(true, false)
		}
	}
	for ready(); len(s.tried) == 0; ready() {
		// The bytes are on their way.
	}
	for i, want := range []string{"[0 a]", "[0 a 0 b]", "[0 a 0 b 0 c]"} {
		ready()
		if fmt.Sprint(s.tried) != want {
			t.Fatalf("after %d posts: %q, want %s", i, s.tried, want)
		}
		if i < 2 {
			(<-s.loops[0].posts)()
		}
	}
	if in := s.intake(0); len(s.loops[0].posts) > 0 || in.buffered != 0 || in.idle.oldest == nil {
		t.Errorf("%d posts, %+v", len(s.loops[0].posts), in)
	}
}

// TestTryIdle: a connection on which no request comes is closed after the idle timeout. One whose request
// does not end is closed after the timeout of heads.
func TestTryIdle(t *testing.T) {
	s := newTrySite(t, func(h *http.Server) { h.ReadHeaderTimeout, h.IdleTimeout = time.Minute, time.Hour })
	in := s.intake(0)
	left := func(n *loopConn, d time.Duration) {
		t.Helper()
		if n == nil {
			t.Fatal("gone")
		}
		if until := time.Until(n.due); until > d || until < d-time.Minute/2 {
			t.Fatalf("due in %v, want %v", until, d)
		}
	}
	v := s.open()
	left(in.waiting.oldest, time.Minute)
	v.send(tryRequest("x", "a"))
	v.expect(http.StatusNoContent, "x", "")
	left(in.idle.oldest, time.Hour)
	v.send("POST")
	if in.idle.oldest != nil {
		t.Error("idle while a request comes")
	}
	left(in.waiting.oldest, time.Minute)
	v.send(tryRequest("x", "a")[4:])
	v.expect(http.StatusNoContent, "x", "")
	in.idle.oldest.due = time.Now()
	in.expire(&in.idle)
	v.expectEnd()
	v = s.open()
	v.send(tryRequest("x", "a"))
	v.send("POST")
	in.waiting.oldest.due = time.Now()
	in.expire(&in.waiting)
	v.expect(http.StatusNoContent, "x", "")
	v.expectEnd()
	if in.buffered != 0 || in.idle.oldest != nil || in.waiting.oldest != nil {
		t.Errorf("%+v", in)
	}
}

// TestTryHangUp: a client that goes after some bytes of a request gets no answer, as from net/http,
// and one that goes in the middle gets that of net/http.
func TestTryHangUp(t *testing.T) {
	s := newTrySite(t, nil)
	for _, sent := range []string{"", "POS", "POST /try"} {
		v := s.open()
		v.send(tryRequest("x", "a"))
		v.expect(http.StatusNoContent, "x", "")
		v.send(sent)
		if err := v.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		v.step()
		if len(sent) >= minRequest {
			res, err := http.ReadResponse(v.r, nil)
			if err != nil || res.StatusCode != http.StatusBadRequest {
				t.Errorf("%q: %v, %v", sent, res, err)
			}
			res.Body.Close()
			continue
		}
		v.expectEnd()
	}
}

// TestTryPanic: a panic of the route ends the connection and nothing else.
func TestTryPanic(t *testing.T) {
	s := newTrySite(t, nil)
	v := s.open()
	v.send(tryRequest("x", "panic") + tryRequest("x", "a"))
	_, _ = io.Copy(io.Discard, v.r) // the end, or a reset, because of the second request
	v = s.open()
	v.send(tryRequest("x", "a"))
	v.expect(http.StatusNoContent, "x", "")
	if s.passed.Load() != 0 || len(s.loops[0].watchers) != 1 {
		t.Errorf("%d in the gate, %d watchers", s.passed.Load(), len(s.loops[0].watchers))
	}
}

// TestTryDeaf: a client that does not read its answers is disconnected.
func TestTryDeaf(t *testing.T) {
	s := newTrySite(t, nil)
	v := s.open()
	text := tryRequest(strings.Repeat("x", 3000), "a")
	for n := 0; len(s.loops[0].watchers) > 0; n++ {
		if n > 20_000 {
			t.Fatal("still there")
		}
		if _, err := io.WriteString(v.Conn, text); err != nil {
			break
		}
		s.step()
	}
	s.step()
	if n := len(s.loops[0].watchers); n != 0 || s.intake(0).buffered != 0 {
		t.Errorf("%d watchers, %+v", n, s.intake(0))
	}
}

// TestTryEnds: the end of the listener closes connections that wait, and is told in the answers to
// requests that come meanwhile.
func TestTryEnds(t *testing.T) {
	s := newTrySite(t, nil)
	idle, late, moving := s.open(), s.open(), s.open()
	idle.send(tryRequest("x", "a"))
	idle.expect(http.StatusNoContent, "x", "")
	late.send(tryRequest("x", "a"))
	late.expect(http.StatusNoContent, "x", "")
	for _, v := range []*visitor{late, moving} {
		body := "a"
		if v == moving {
			body = "move"
		}
		if _, err := io.WriteString(v.Conn, tryRequest("x", body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ln.Close(); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.loops[0].watchers {
		w.Ready(true, false)
	}
	for _, l := range []*stepLoop{s.loops[1], s.loops[0]} {
		for len(l.posts) > 0 {
			(<-l.posts)()
		}
	}
	res, err := http.ReadResponse(late.r, nil)
	if err != nil || !res.Close {
		t.Fatalf("%v, %v", res, err)
	}
	res.Body.Close()
	late.expectEnd()
	idle.expectEnd()
	_, _ = io.Copy(io.Discard, moving.r) // the end, or a reset
	for i, l := range s.loops {
		if len(l.watchers) != 0 {
			t.Errorf("loop %d has %d watchers", i, len(l.watchers))
		}
	}
}

// TestTryAllocations: a request whose head is that of the one before leaves no garbage.
func TestTryAllocations(t *testing.T) {
	s := newTrySite(t, nil)
	v := s.open()
	text := []byte(tryRequest("x", ""))
	answer := make([]byte, 1000)
	s.tried = make([]string, 0, 10_000)
	n := testing.AllocsPerRun(500, func() {
		s.tried = s.tried[:0]
		if _, err := v.Write(text); err != nil {
			t.Fatal(err)
		}
		for len(s.tried) == 0 {
			for _, w := range s.loops[0].watchers {
				w.Ready(true, false)
			}
		}
		if _, err := v.Read(answer); err != nil {
			t.Fatal(err)
		}
	})
	if n > 2 && !raceEnabled { // those of the test's route, which notes what it does
		t.Errorf("%v allocations", n)
	}
}
