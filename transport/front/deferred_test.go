//go:build linux

package front

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/transport"
)

// asker is a request that the test answers.
type asker struct {
	*Deferred
	body string
	gone bool
}

func (a *asker) Gone() { a.gone = true }

// later is a site whose route at /later defers its answers. Its gate notes what happens.
type later struct {
	*site
	asked []*asker

	mu    sync.Mutex
	gated []string
}

func (l *later) Enter(q *Request) *Refusal {
	q.Began = time.Unix(1, 0)
	if q.Query == "refused" {
		return &Refusal{http.StatusTooManyRequests, "too many"}
	}
	return nil
}

func (l *later) Leave(q *Request, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gated = append(l.gated, fmt.Sprintf("%s %d %d", q.Path, status, q.Began.Unix()))
}

func (l *later) take(a *Arrival) {
	d := &asker{body: string(a.Body)}
	if d.Deferred = a.Defer(d); d.Deferred != nil {
		l.asked = append(l.asked, d)
	}
	if strings.HasPrefix(d.body, "panic") {
		panic(d.body)
	}
}

// route is that of /later.
func (l *later) route() Route {
	return Route{
		Method: http.MethodPost, Path: "/later", Gate: l, Take: l.take, MaxBody: 1 << 20, ContentType: "a/b",
		Fields: func(q *Request, head []byte) []byte {
			return append(append(append(head, "X-Y: "...), q.Get("Y")...), "\r\n"...)
		},
	}
}

func newLater(t *testing.T, edit func(*http.Server)) *later {
	l := &later{site: &site{t: t, loop: newStepLoop()}}
	server := &http.Server{}
	if edit != nil {
		edit(server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.ln = Listen(ln, server, watching{next: func() transport.Loop { return l.loop }}, l.route())
	t.Cleanup(func() {
		l.ln.Close()
		for _, a := range l.asked {
			if !a.gone {
				a.Answer(200, "", nil, time.Second)
			}
		}
		l.loop.ready()
		l.ln.Wait(t.Context())
	})
	return l
}

// ask is a request to /later.
func ask(body string) string {
	return fmt.Sprintf("POST /later HTTP/1.1\r\nHost: a\r\nY: z\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// response is one whose body was closed.
type response http.Response

// answered reads an answer with this body.
func (l *later) answered(r *bufio.Reader, want string) *response {
	l.t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want || resp.ContentLength != int64(len(want)) {
		l.t.Fatalf("got %d bytes %.100q, %v, want %d", len(body), body, err, len(want))
	}
	if y := resp.Header.Get("X-Y"); y != "z" || resp.Header.Get("Content-Type") != "a/b" {
		l.t.Errorf("%v", resp.Header)
	}
	return (*response)(resp)
}

func (l *later) left(want ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := strings.Join(l.gated, ", "); got != strings.Join(want, ", ") {
		l.t.Errorf("left the gate: %s, want %s", got, want)
	}
}

// TestDeferred: requests are answered one after the other on one connection, whatever the portions in
// which they come; then net/http gets one that is not for a route, with what follows.
func TestDeferred(t *testing.T) {
	l := newLater(t, nil)
	nc := l.open()
	r := bufio.NewReader(nc)
	in := l.ln.intakes[l.loop]
	for i, text := range []string{"one", "two", "three"} {
		sent := ask(text)
		cut := []int{len(sent), 30, len(sent) - 2}[i]
		l.send(nc, sent[:cut])
		l.send(nc, sent[cut:])
		if len(l.asked) != i+1 || l.asked[i].body != text || in.waiting.oldest != nil || in.idle.oldest != nil {
			t.Fatalf("%d requests", len(l.asked))
		}
		l.asked[i].Answer(http.StatusAccepted, "More: 1\r\n", []byte("to "+text), time.Second)
		if resp := l.answered(r, "to "+text); resp.StatusCode != http.StatusAccepted || resp.Header.Get("More") != "1" || resp.Close {
			t.Errorf("%+v", resp)
		}
		if in.idle.oldest == nil || in.buffered != 0 {
			t.Errorf("the connection is not kept, or %d bytes", in.buffered)
		}
		l.asked[i].Answer(200, "", []byte("twice"), time.Second)
	}
	const other = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n"
	l.send(nc, other)
	got, err := l.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	nc.Close()
	if b, err := io.ReadAll(got); err != nil || string(b) != other {
		t.Errorf("net/http got %q, %v", b, err)
	}
	l.left("/later 202 1", "/later 202 1", "/later 202 1")
}

// TestDeferredPipeline: requests that come before the answer to the first one are answered in turn.
func TestDeferredPipeline(t *testing.T) {
	l := newLater(t, nil)
	nc := l.open()
	r := bufio.NewReader(nc)
	l.send(nc, ask("0")+ask("1")+ask("2")[:40])
	in := l.ln.intakes[l.loop]
	if len(l.asked) != 1 || in.buffered == 0 {
		t.Fatalf("%d requests, %d bytes", len(l.asked), in.buffered)
	}
	for i := range 3 {
		if i == 1 {
			l.send(nc, ask("2")[40:]) // while another waits
		}
		l.asked[i].Answer(200, "", []byte{'a' + byte(i)}, time.Second)
		l.loop.ready()
		l.answered(r, string(rune('a'+i)))
	}
	if in.buffered != 0 || len(l.asked) != 3 || in.idle.oldest == nil {
		t.Errorf("%d requests, %d bytes", len(l.asked), in.buffered)
	}
}

// TestDeferredGone: the route and the gate are told of a client that goes, once.
func TestDeferredGone(t *testing.T) {
	l := newLater(t, nil)
	nc := l.open()
	l.send(nc, ask("a"))
	nc.Close()
	for !l.asked[0].gone { // until the end of the connection has come
		l.loop.ready()
	}
	l.asked[0].Answer(200, "", nil, time.Second)
	l.left("/later 499 1")
	if in := l.ln.intakes[l.loop]; len(l.loop.watchers) != 0 || in.buffered != 0 || in.idle.oldest != nil {
		t.Error("something is left")
	}
}

// TestDeferredStash: what clients send before they get an answer is bounded. The oldest make room.
func TestDeferredStash(t *testing.T) {
	l := newLater(t, nil)
	more := strings.Repeat("x", 60_000)
	const clients = maxBuffered/(64<<10) + 10
	for range clients {
		nc := l.open()
		l.send(nc, ask("a"))
		l.send(nc, more)
	}
	gone := 0
	for _, a := range l.asked {
		if a.gone {
			gone++
		}
	}
	if in := l.ln.intakes[l.loop]; in.buffered > maxBuffered || gone < 5 || gone > 20 || !l.asked[0].gone || l.asked[clients-1].gone {
		t.Errorf("holds %d bytes, %d of %d are gone", in.buffered, gone, clients)
	}
}

// TestDeferredRefused: a request that may not pass the gate is answered at once, and net/http gets the
// next one.
func TestDeferredRefused(t *testing.T) {
	l := newLater(t, nil)
	nc := l.open()
	l.send(nc, strings.Replace(ask("a"), "/later", "/later?refused", 1)+"next")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || len(l.asked) != 0 {
		t.Fatalf("%v, %d requests", resp, len(l.asked))
	}
	got, err := l.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	nc.Close()
	if b, _ := io.ReadAll(got); string(b) != "next" {
		t.Errorf("net/http got %q", b)
	}
	l.left("/later 429 1")
}

// TestDeferredPanic: a panic behind Defer closes the connection.
func TestDeferredPanic(t *testing.T) {
	var log bytes.Buffer
	l := newLater(t, func(s *http.Server) { s.ErrorLog = stdlog.New(&log, "", 0) })
	nc := l.open()
	l.send(nc, ask("panic"))
	if b, err := io.ReadAll(nc); err != nil || len(b) > 0 || !strings.Contains(log.String(), "panic") || len(l.loop.watchers) != 0 {
		t.Errorf("got %q, %v; %s", b, err, log.String())
	}
	l.left("/later 500 1")
	l.asked[0].Answer(200, "", nil, time.Second)
	l.asked = nil
}

// TestKept: a connection that may send another request is closed after the idle timeout. One that has begun
// to send it is closed after the timeout of heads.
func TestKept(t *testing.T) {
	l := newLater(t, func(s *http.Server) { s.IdleTimeout, s.ReadHeaderTimeout = time.Hour, time.Minute })
	in := (*intake)(nil)
	keep := func() net.Conn {
		nc := l.open()
		in = l.ln.intakes[l.loop]
		l.send(nc, ask("a"))
		l.asked[len(l.asked)-1].Answer(200, "", nil, time.Second)
		l.answered(bufio.NewReader(nc), "")
		return nc
	}
	idle, begun := keep(), keep()
	if left := time.Until(in.idle.oldest.due); left < 59*time.Minute || in.waiting.oldest != nil || in.idle.timer == nil {
		t.Errorf("%v", left)
	}
	l.send(begun, "POST /la")
	if left := time.Until(in.waiting.oldest.due); left > time.Minute || in.idle.oldest != in.idle.newest {
		t.Errorf("%v", left)
	}
	in.waiting.oldest.due, in.idle.oldest.due = time.Now(), time.Now()
	in.expire(&in.waiting)
	in.expire(&in.idle)
	for _, nc := range []net.Conn{idle, begun} {
		if b, err := io.ReadAll(nc); err != nil || len(b) > 0 {
			t.Errorf("got %q, %v", b, err)
		}
	}
	if len(l.loop.watchers) != 0 || in.buffered != 0 || in.idle.timer != nil || in.waiting.timer != nil {
		t.Error("something is left")
	}
}

// TestDeferredClose: closing the listener closes kept connections at once. Wait waits for the answers
// to the others, which tell that the connection ends.
func TestDeferredClose(t *testing.T) {
	l := newLater(t, nil)
	kept, asking := l.open(), l.open()
	l.send(kept, ask("a"))
	l.asked[0].Answer(200, "", nil, time.Second)
	l.answered(bufio.NewReader(kept), "")
	l.send(asking, ask("b"))
	l.ln.Close()
	l.loop.ready()
	if b, err := io.ReadAll(kept); err != nil || len(b) > 0 {
		t.Errorf("got %q, %v", b, err)
	}
	done := make(chan error)
	go func() { done <- l.ln.Wait(t.Context()) }()
	l.asked[1].Answer(200, "", []byte("b"), time.Second)
	r := bufio.NewReader(asking)
	if resp := l.answered(r, "b"); !resp.Close {
		t.Error("the answer does not tell that the connection ends")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// large is more than the sockets of both sides hold.
var large = bytes.Repeat([]byte("0123456789abcdef"), 6<<16)

// patient is a connection on which each read may take its time, and not all of them together.
type patient struct{ net.Conn }

func (p patient) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	return p.Conn.Read(b)
}

// TestLargeAnswer: a client gets a large answer as fast as it reads, also over TLS, and its next request
// is served; one that does not read is cut off.
func TestLargeAnswer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		loop := loop.New()
		go loop.Run()
		defer loop.Close()
		route := (&later{}).route()
		route.Gate = nil
		route.Take = func(a *Arrival) {
			within := time.Hour
			if string(a.Body) == "stuck" {
				within = time.Millisecond
			}
			if d := a.Defer(&asker{}); d != nil {
				d.Answer(200, "", large, within)
			}
		}
		server := &http.Server{TLSConfig: &tls.Config{Certificates: testCertificates()}, Handler: http.NotFoundHandler()}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listen := Listen
		if secure {
			listen = ListenTLS
		}
		front := listen(ln, server, watching{next: func() transport.Loop { return loop.Sockets() }}, route)
		served := make(chan error)
		go func() { served <- server.Serve(front) }()
		send := func(text string) net.Conn {
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = nc.(*net.TCPConn).SetReadBuffer(256 << 10) // as large as it would become if this fails
			nc = patient{nc}
			if secure {
				nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			t.Cleanup(func() { nc.Close() })
			if _, err := io.WriteString(nc, text); err != nil {
				t.Fatal(err)
			}
			return nc
		}
		nc := send(ask("slow") + "GET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		r := bufio.NewReader(nc)
		(&later{site: &site{t: t}}).answered(r, string(large))
		if b, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 404 ") {
			t.Errorf("TLS %v: the next answer is %q, %v", secure, b, err)
		}
		stuck := send(ask("stuck"))
		if _, err := io.ReadFull(stuck, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		server.Close()
		<-served
		_ = front.Wait(t.Context()) // the client is cut off
		if b, err := io.ReadAll(stuck); len(b) >= len(large) {
			t.Errorf("TLS %v: got %d bytes, %v", secure, len(b), err)
		}
	}
}
