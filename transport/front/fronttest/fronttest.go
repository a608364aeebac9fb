// Package fronttest has helpers for tests of routes: a server with a front, connections in memory, and the answers as a
// client understands them.
package fronttest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
)

// Site is a server, with or without routes.
type Site struct {
	*http.Server
	Front    *front.Listener // nil without routes
	Served   atomic.Int64    // requests that net/http has got
	addr     string
	finished chan struct{}
}

// Serve serves h on ln until Close. Requests for routes do not reach h. Timeouts: 10 s for a head and for an answer, 30
// s for a request and for the wait for the next one.
func Serve(ln net.Listener, h http.Handler, routes ...front.Route) *Site {
	return ServeOn(nil, ln, h, routes...)
}

// ServeOn is Serve with the loops of a.
func ServeOn(a transport.Acceptor, ln net.Listener, h http.Handler, routes ...front.Route) *Site {
	s := &Site{addr: ln.Addr().String(), finished: make(chan struct{})}
	s.Server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Served.Add(1)
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if len(routes) > 0 {
		s.Front = front.Listen(ln, s.Server, a, routes...)
		ln = s.Front
	}
	go func() {
		defer close(s.finished)
		_ = s.Server.Serve(ln)
	}()
	return s
}

// Close ends the server and all its connections.
func (s *Site) Close() {
	_ = s.Server.Close()
	<-s.finished
}

// Addr is host and port.
func (s *Site) Addr() string { return s.addr }

// Exchange sends the parts on a new connection, ends its direction, and returns all answers, as Answer does.
func (s *Site) Exchange(parts ...string) ([]string, error) {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	for _, p := range parts {
		if _, err := io.WriteString(c, p); err != nil {
			return nil, err
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		return nil, err
	}
	return answers(raw), nil
}

func answers(raw []byte) (list []string) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for {
		if _, err := r.Peek(1); err != nil {
			return list
		}
		text, _, err := Answer(r)
		if err != nil {
			return append(list, "broken: "+err.Error())
		}
		list = append(list, text)
	}
}

// Answer reads an answer as a client understands it: status, fields, length of the body (-1: unknown), whether the
// connection ends, which is also last, and the body. A date that is now is "now".
func Answer(r *bufio.Reader) (text string, last bool, err error) {
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if date, dateErr := http.ParseTime(res.Header.Get("Date")); dateErr == nil && time.Since(date).Abs() < time.Minute {
		res.Header.Set("Date", "now")
	}
	return fmt.Sprintf("%s %v %d %v %q", res.Status, res.Header, res.ContentLength, res.Close, body), res.Close, err
}

// Listen returns a listener of this machine.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// Pipes is a listener of connections in memory, for virtual time.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipes returns a listener without connections.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Dial returns the client's end of a connection when it is accepted.
func (p *Pipes) Dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error { p.once.Do(func() { close(p.done) }); return nil }

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{} }
