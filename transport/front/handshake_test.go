//go:build linux

package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front/internal/slots"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// patience bounds every wait of a test; none takes anywhere near as long.
const patience = wait.Limit

// secureSite is a server over TLS on a loop. /ws changes the protocol, /answer is a route with
// Answer, everything else is for net/http.
type secureSite struct {
	t      *testing.T
	loop   *loop.Loop
	ln     *Listener
	server *http.Server
	taken  chan change
	log    *logtest.Buffer
}

// testCertificates are those of package httptest.
var testCertificates = sync.OnceValue(func() []tls.Certificate {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates
})

func newSecureSite(t *testing.T, edit func(*http.Server)) *secureSite {
	t.Helper()
	s := &secureSite{t: t, loop: loop.New(), taken: make(chan change, 10000), log: new(logtest.Buffer)}
	go s.loop.Run()
	s.server = &http.Server{
		TLSConfig: &tls.Config{Certificates: testCertificates()},
		ErrorLog:  log.New(s.log, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d %v", r.Proto, r.URL.Path, len(body), r.TLS != nil && r.TLS.HandshakeComplete)
		}),
	}
	if edit != nil {
		edit(s.server)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.ln = ListenTLS(ln, s.server, watching{next: func() transport.Loop { return s.loop.Sockets() }},
		Route{Method: http.MethodGet, Path: "/ws", Upgrade: "test", Take: s.take},
		Route{Method: http.MethodPost, Path: "/answer", ContentType: "text/plain",
			Answer: func(_ context.Context, _ *Request, _ any, body, out []byte) (int, []byte) {
				return http.StatusOK, append(out, body...)
			}},
		Route{Method: http.MethodPost, Path: "/try",
			Try: func(_ transport.Loop, _ *Request, body []byte) (int, transport.Loop) {
				if string(body) == "wait" {
					return 0, nil
				}
				return http.StatusNoContent, nil
			},
			Answer: func(_ context.Context, _ *Request, _ any, body, out []byte) (int, []byte) {
				return http.StatusNotFound, out
			}})
	served := make(chan error)
	go func() { served <- s.server.Serve(s.ln) }()
	t.Cleanup(func() {
		s.server.Close()
		<-served
		_ = s.ln.Wait(context.Background())
		s.loop.Close()
	})
	return s
}

// take takes every connection, says goodbye and closes it.
func (s *secureSite) take(a *Arrival) {
	if a.TLS == nil {
		s.t.Error("there is no TLS")
	}
	if a.Take(http.StatusSwitchingProtocols, []byte(switching)) {
		a.TLS.CloseWrite()
		a.Loop.Unwatch(int(a.FD))
		netio.CloseFD(a.FD, false)
		s.taken <- change{early: string(a.Early), remote: a.RemoteAddr}
	}
}

func (s *secureSite) dial() net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.ln.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

func (s *secureSite) client(config *tls.Config) *tls.Conn {
	config.InsecureSkipVerify = true
	return tls.Client(s.dial(), config)
}

// switched sends a request to change the protocol and expects success.
func (s *secureSite) switched(c net.Conn, early string) {
	s.t.Helper()
	if _, err := io.WriteString(c, request("")+early); err != nil {
		s.t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != switching {
		s.t.Fatalf("the client got %q, %v", b, err)
	}
	if got := <-s.taken; got.early != early || got.remote != c.LocalAddr().String() {
		s.t.Errorf("the route got %q", got)
	}
}

// TestSecureRoutes: requests reach their routes, whatever the version and the portions in which
// records come; net/http gets the others, with all bytes, and knows that there is TLS.
func TestSecureRoutes(t *testing.T) {
	s := newSecureSite(t, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := &tls.Config{MaxVersion: version, NextProtos: []string{"http/1.1"}}
		s.switched(s.client(config), "early")
		s.switched(s.client(&tls.Config{MaxVersion: version}), "") // no ALPN
		c := s.client(config)
		for _, b := range []byte(request("")) {
			_, _ = c.Write([]byte{b}) // a record each
		}
		s.switched2(c)

		c = s.client(config)
		r := bufio.NewReader(c)
		post := func(path, body string) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		}
		large := strings.Repeat("x", 300_000)
		go func() {
			_, _ = io.WriteString(c, post("/answer", "one")+post("/answer", "two")+post("/other", large)+post("/answer", "three"))
		}()
		for _, want := range []string{"one", "two", "HTTP/1.1 /other 300000 true", "HTTP/1.1 /answer 5 true"} {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		c.Close()
	}
}

func (s *secureSite) switched2(c net.Conn) {
	s.t.Helper()
	if b, err := io.ReadAll(c); err != nil || string(b) != switching {
		s.t.Fatalf("the client got %q, %v", b, err)
	}
	<-s.taken
}

// TestSecureHTTP2: connections that agree on HTTP/2 are those of net/http.
func TestSecureHTTP2(t *testing.T) {
	s := newSecureSite(t, nil)
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Post("https://"+s.ln.Addr().String()+"/h2", "", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != "HTTP/2.0 /h2 4 true" {
		t.Errorf("got %q", got)
	}
}

// TestSecureKept: over TLS, too, a loop answers one request after the other, until one is not for it.
func TestSecureKept(t *testing.T) {
	s := newSecureSite(t, nil)
	c := s.client(&tls.Config{})
	r := bufio.NewReader(c)
	for i, body := range []string{"a", "", strings.Repeat("b", 60_000), "c", "wait", "d"} {
		for _, part := range []string{fmt.Sprintf("POST /try HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", len(body)), body} {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		want := http.StatusNoContent
		if i > 3 { // by a goroutine
			want = http.StatusNotFound
		}
		if res.StatusCode != want {
			t.Fatalf("request %d: %v", i, res)
		}
	}
}

// TestNotTLS: net/http answers those who do not speak TLS.
func TestNotTLS(t *testing.T) {
	s := newSecureSite(t, nil)
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n": "Client sent an HTTP request to an HTTPS server.",
		"G":                                 "",
		"\x16\x03\x01\x00\x05hello":         "\x15\x03\x01\x00\x02\x02", // an alert
		"\x16\x03\x01\xff\xff":              "\x15\x03\x01\x00\x02\x02",
		"\x80\x2e\x01\x00\x02":              "\x15\x03\x01\x00\x02\x02",
		"\x00\x00\x00\x00\x00":              "",
		"":                                  "",
	} {
		nc := s.dial()
		_, _ = io.WriteString(nc, sent)
		_ = nc.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(nc)
		if !strings.Contains(string(got), want) || want == "" && len(got) > 0 {
			t.Errorf("%q: got %q", sent, got)
		}
	}
	s.switched(s.client(&tls.Config{}), "") // all is well
	if !strings.Contains(s.log.String(), "http: TLS handshake error from 127.0.0.1:") {
		t.Errorf("log %q", s.log)
	}
}

// half makes a connection whose client says hello, and then nothing.
func (s *secureSite) half() net.Conn {
	nc := s.dial()
	c := tls.Client(&muted{Conn: nc}, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}})
	if err := c.Handshake(); !errors.Is(err, errMuted) {
		s.t.Fatal(err)
	}
	return nc
}

// muted is a connection that can write once.
type muted struct {
	net.Conn
	written bool
}

var errMuted = errors.New("muted")

func (m *muted) Write(p []byte) (int, error) {
	if m.written {
		return 0, errMuted
	}
	m.written = true
	return m.Conn.Write(p)
}

// TestHandshakeTimeout: neither silence, nor half a hello, nor half a handshake lasts.
func TestHandshakeTimeout(t *testing.T) {
	s := newSecureSite(t, func(hs *http.Server) { hs.ReadHeaderTimeout = time.Hour })
	silent, partial, half := s.dial(), s.dial(), s.half()
	_, _ = io.WriteString(partial, "\x16\x03\x01\x02\x00\x01")
	done := s.client(&tls.Config{})
	if err := done.Handshake(); err != nil {
		t.Fatal(err)
	}
	clients := []net.Conn{silent, partial, half, done.NetConn()}
	wait.Until(t, "all of them wait", func() bool {
		due := s.due()
		for _, at := range due {
			if left := time.Until(at); left > time.Hour || left < time.Hour-patience {
				t.Fatalf("the time of a client is over in %v", left)
			}
		}
		return len(due) == len(clients)
	})
	s.late()
	for i, nc := range clients {
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d: %v", i, err)
		}
	}
	wait.Until(t, "two lines of the log", func() bool { return strings.Count(s.log.String(), "i/o timeout") >= 2 })
}

// TestIdleHandshakes: clients that go silent in the middle of their handshakes hold up nobody. No more than
// the limit wait, those that have waited longest end, and the others when their time is over.
func TestIdleHandshakes(t *testing.T) {
	s := newSecureSite(t, func(hs *http.Server) { hs.ReadHeaderTimeout = time.Hour })
	const limit, more = 200, 100
	replaced := make(chan struct{})
	s.loop.Post(loop.Func(func() {
		s.ln.handshakes.slots = slots.New(1, limit, maxCompute, errTooMany)
		close(replaced)
	}))
	<-replaced
	usual := 0 // clients that do not go silent
	served := func() {
		t.Helper()
		usual++
		s.switched(s.client(&tls.Config{}), "")
		// The limit of those that wait, the one with the slot, and those that have not begun.
		if n := s.ln.handshakes.slots.Len(); n > limit+3 {
			t.Errorf("%d handshakes have not ended", n)
		}
	}
	ended := make(chan int, limit+more)
	for i := range limit + more {
		nc := s.half()
		_ = nc.SetDeadline(time.Time{})
		go func() {
			_, _ = io.Copy(io.Discard, nc)
			ended <- i
		}()
		if i%25 == 24 {
			served()
		}
	}
	for range more {
		if i := <-ended; i >= limit {
			t.Errorf("client %d ends, which is one of the last", i)
		}
	}
	served()
	s.late()
	for range limit {
		<-ended
	}
	served()
	text := s.log.String()
	// A usual client may have waited beside as many others as may wait.
	tooMany, late := strings.Count(text, errTooMany.Error()), strings.Count(text, "i/o timeout")
	if tooMany < more || tooMany > more+usual || tooMany+late != limit+more {
		t.Errorf("the log tells of %d handshakes too many and %d that are late", tooMany, late)
	}
}

// due returns when the time of each client that waits is over.
func (s *secureSite) due() (list []time.Time) {
	done := make(chan struct{})
	s.loop.Sockets().Post(func() {
		defer close(done)
		for _, in := range s.ln.intakes {
			in.mu.Lock()
			for n := in.waiting.oldest; n != nil; n = in.waiting.after(n) {
				list = append(list, n.due)
			}
			in.mu.Unlock()
		}
	})
	<-done
	return list
}

// late ends the time of all clients that wait.
func (s *secureSite) late() {
	s.ln.mu.Lock()
	defer s.ln.mu.Unlock()
	for _, in := range s.ln.intakes {
		in.loop.Post(func() {
			in.mu.Lock()
			for n := in.waiting.oldest; n != nil; n = in.waiting.after(n) {
				n.due = time.Time{}
			}
			in.mu.Unlock()
			in.expire(&in.waiting)
		})
	}
}

// TestSecureSlowBody: net/http gets the request of a client that goes silent in the middle of a body.
func TestSecureSlowBody(t *testing.T) {
	s := newSecureSite(t, func(hs *http.Server) { hs.ReadHeaderTimeout, hs.ReadTimeout = patience, 100*time.Millisecond })
	c := s.client(&tls.Config{NextProtos: []string{"http/1.1"}})
	if _, err := io.WriteString(c, "POST /answer HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "HTTP/1.1 /answer 4 true" {
		t.Errorf("net/http says %q", body)
	}
}

// TestSlowCallback: a callback that waits keeps nobody else from shaking hands.
func TestSlowCallback(t *testing.T) {
	release := make(chan struct{})
	s := newSecureSite(t, func(hs *http.Server) {
		hs.TLSConfig.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if hello.Conn.RemoteAddr() == nil || hello.Conn.LocalAddr() == nil {
				t.Error("addresses are missing")
			}
			switch hello.ServerName {
			case "slow.test":
				<-release
			case "panic.test":
				panic("oops")
			}
			return nil, nil
		}
	})
	var group sync.WaitGroup
	for range 20 {
		c := s.client(&tls.Config{ServerName: "slow.test"})
		group.Go(func() {
			if err := c.Handshake(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.client(&tls.Config{ServerName: "panic.test"}).Handshake(); err == nil {
		t.Error("a panic went well")
	}
	s.switched(s.client(&tls.Config{ServerName: "quick.test"}), "")
	close(release)
	group.Wait()
	if !strings.Contains(s.log.String(), "panic serving 127.0.0.1") {
		t.Errorf("log %q", s.log)
	}
}

// TestClientsVanish: clients that go in the middle of a handshake leave nothing behind.
func TestClientsVanish(t *testing.T) {
	s := newSecureSite(t, nil)
	for i := range 50 {
		nc := s.half()
		if i%2 == 0 {
			_ = nc.(*net.TCPConn).SetLinger(0)
		}
		nc.Close()
	}
	wait.Until(t, "all handshakes have ended", func() bool { return s.ln.handshakes.slots.Len() == 0 })
	s.switched(s.client(&tls.Config{}), "")
}

// TestCloseDuringHandshakes: nothing is left, whether the loop ends first or the listener.
func TestCloseDuringHandshakes(t *testing.T) {
	for _, loopFirst := range []bool{false, true} {
		s := newSecureSite(t, nil)
		var clients []net.Conn
		for range 5 {
			clients = append(clients, s.half(), s.dial())
		}
		if loopFirst {
			s.loop.Close()
		}
		s.server.Close()
		for i, nc := range clients {
			if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("loop first %v, %d: %v", loopFirst, i, err)
			}
		}
	}
}

// TestTickets: sessions are resumed.
func TestTickets(t *testing.T) {
	s := newSecureSite(t, nil)
	config := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(10)}
	for i := range 3 {
		c := s.client(config)
		s.switched(c, "")
		if c.ConnectionState().DidResume != (i > 0) {
			t.Errorf("connection %d: resumed %v", i, c.ConnectionState().DidResume)
		}
	}
}

// clipped is a connection that drops what is written beyond some bytes.
type clipped struct {
	net.Conn
	left int
}

func (c *clipped) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	if c.left -= n; err == nil {
		n = len(p)
	}
	return n, err
}

// TestPartialRecords: what TLS holds of incomplete records counts as what clients have sent of their
// requests, so it is bounded.
func TestPartialRecords(t *testing.T) {
	s := newSecureSite(t, nil)
	held := func() (bytes, clients int) {
		done := make(chan struct{})
		s.loop.Sockets().Post(func() {
			defer close(done)
			for _, in := range s.ln.intakes {
				bytes += in.buffered
				for n := in.partial.oldest; n != nil; n = in.partial.after(n) {
					clients++
				}
			}
		})
		<-done
		return bytes, clients
	}
	reached := func(least, most, clients int) {
		t.Helper()
		wait.Success(t, "what clients have sent is counted", func() error {
			if b, c := held(); b < least || b > most || c != clients {
				return fmt.Errorf("%d bytes of %d clients", b, c)
			}
			return nil
		})
	}
	var conns []*tls.Conn
	for range 3 {
		nc := &clipped{s.dial(), 1 << 20}
		c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		nc.left = 9000
		_, _ = c.Write([]byte(request("A: " + strings.Repeat("x", 15000) + "\r\n")))
		conns = append(conns, c)
	}
	reached(3*9000, 3*9000, 3)
	conns[1].NetConn().(*clipped).Conn.Close()
	reached(2*9000, 2*9000, 2)
	s.switched(s.client(&tls.Config{}), "")
	for _, c := range conns {
		_ = c.NetConn().(*clipped).Conn.Close()
	}
	reached(0, 0, 0)
}

// BenchmarkHandshake shows what a connection costs both ends, of which the server has about half.
func BenchmarkHandshake(b *testing.B) {
	for name, cache := range map[string]tls.ClientSessionCache{"full": nil, "resumed": tls.NewLRUClientSessionCache(10)} {
		b.Run(name, func(b *testing.B) {
			server := &tls.Config{Certificates: testCertificates()}
			client := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: cache, ServerName: "a"}
			for b.Loop() {
				x, y := net.Pipe()
				c := tls.Client(x, client)
				go func() { _, _ = c.Read(make([]byte, 1)) }() // reads the tickets, too
				if err := tls.Server(y, server).Handshake(); err != nil {
					b.Fatal(err)
				}
				y.Close()
				x.Close()
			}
		})
	}
}
