//go:build unix

package driver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// lines is an endpoint of a protocol of lines, such as an HTTP stream could be: a line is
// a message, "cut" and "linger" end the connection that way, and so does Close.
type lines struct {
	end      transport.End // of Close
	part     []byte
	found    string
	released chan struct{}
}

func (e *lines) Next(data []byte) (transport.Found, []byte, []byte) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		e.part = append(e.part, data...)
		return transport.FoundNothing, nil, nil
	}
	line := append(e.part, data[:i]...)
	e.part = nil
	switch e.found = string(line); e.found {
	case "cut", "linger":
		return transport.FoundControl, nil, data[i+1:]
	}
	return transport.FoundMessage, line, data[i+1:]
}

func (e *lines) Control() transport.Step {
	return transport.Step{Write: []byte("bye\n"), End: map[string]transport.End{"cut": transport.EndCut, "linger": transport.EndLinger}[e.found], Cause: errors.New(e.found)}
}
func (e *lines) Rest() transport.Step  { return transport.Step{} }
func (e *lines) Begin() transport.Step { return transport.Step{Tick: 20 * time.Millisecond} }

func (e *lines) Tick(congested, _ bool) transport.Step {
	if congested {
		return transport.Step{Tick: time.Hour}
	}
	return transport.Step{Write: []byte("tick\n")} // once
}

func (e *lines) Close(d protocol.Disconnect) transport.Step {
	return transport.Step{Write: []byte(d.Reason + "\n"), End: e.end, Cause: d}
}
func (e *lines) Fail(d protocol.Disconnect, cause error) transport.Step {
	return transport.Step{Write: []byte(d.Reason + "\n"), End: transport.EndLinger, Cause: cause}
}
func (e *lines) FrameSize(b []byte) int { return bytes.IndexByte(b, '\n') + 1 }
func (e *lines) Timeouts() transport.Timeouts {
	return transport.Timeouts{Write: patience, Await: patience, Close: patience}
}
func (e *lines) Overdue() transport.Step { return transport.Step{End: transport.EndCut} }
func (e *lines) Release()                { e.released <- struct{}{} }

// listener is a peer and its acceptor.
type listener struct {
	conn     transport.Conn
	unsent   [][]byte
	receive  func(p *listener, message string) // where the transport calls
	accepted chan struct{}
	closed   chan error
}

func (p *listener) Accept(_ context.Context, c transport.Conn, _ transport.Info) (transport.Peer, error) {
	p.conn = c
	close(p.accepted)
	return p, nil
}
func (p *listener) NextLoop() transport.Loop { return nil }
func (p *listener) AcceptOn(_ transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return p.Accept(ctx, c, info)
}
func (p *listener) Receive(message []byte) { p.receive(p, string(message)) }
func (p *listener) Writable()              { p.write(nil) }
func (p *listener) Closed(err error)       { p.closed <- err }

// drivers start a connection of a socket, each in its way. What they return calls a
// function where the core would.
var drivers = map[string]func(t *testing.T, nc net.Conn, p *listener, e lines) func(func()){
	"loop": func(t *testing.T, nc net.Conn, p *listener, e lines) func(func()) {
		if !poll.Supported() {
			t.Skip("loops watch no sockets here")
		}
		l := loop.New()
		go l.Run()
		t.Cleanup(l.Close)
		fd, _, _ := netio.Detach(netio.NewStream(nc))
		NewLoopConn(l.Sockets(), fd, e).Post(p, Candidate{Ctx: context.Background()})
		return func(f func()) {
			done := make(chan struct{})
			l.Post(loop.Func(func() { f(); close(done) }))
			<-done
		}
	},
	overTLS: func(t *testing.T, nc net.Conn, p *listener, e lines) func(func()) {
		if !poll.Supported() {
			t.Skip("loops watch no sockets here")
		}
		l := loop.New()
		go l.Run()
		t.Cleanup(l.Close)
		secured := netio.NewTLS(nc, &tls.Config{Certificates: certificates(t)})
		if err := secured.Conn().Handshake(); err != nil {
			t.Fatal(err)
		}
		fd, _, _ := netio.Detach(netio.NewStream(nc))
		NewLoopConn(l.Sockets(), fd, e).Post(p, Candidate{Ctx: context.Background(), TLS: secured})
		return func(f func()) {
			done := make(chan struct{})
			l.Post(loop.Func(func() { f(); close(done) }))
			<-done
		}
	},
	"stream": func(t *testing.T, nc net.Conn, p *listener, e lines) func(func()) {
		NewStreamConn(netio.NewStream(nc), e).Serve(p, Candidate{Ctx: context.Background()}, true)
		return func(f func()) { f() }
	},
	// What cannot tell whether it is ready, such as TLS.
	"blocking stream": func(t *testing.T, nc net.Conn, p *listener, e lines) func(func()) {
		NewStreamConn(netio.NewStream(struct{ *net.TCPConn }{nc.(*net.TCPConn)}), e).Serve(p, Candidate{Ctx: context.Background()}, true)
		return func(f func()) { f() }
	},
}

// overTLS is the driver on a loop whose client has TLS.
const overTLS = "loop, TLS"

// certificates returns that of package httptest.
func certificates(t *testing.T) []tls.Certificate {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates
}

// onBoth runs a test with each driver, with a client.
func onBoth(t *testing.T, end transport.End, receive func(*listener, string), test func(t *testing.T, client net.Conn, p *listener, core func(func()))) {
	for name, start := range drivers {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			client, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_ = client.SetDeadline(time.Now().Add(patience))
			server, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			p := &listener{receive: receive, accepted: make(chan struct{}), closed: make(chan error, 2)}
			released := make(chan struct{}, 2)
			if name == overTLS {
				secured := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
				go func() { _ = secured.Handshake() }()
				client = secured
			}
			core := start(t, server, p, lines{end: end, released: released})
			<-p.accepted
			test(t, client, p, core)
			<-released
		})
	}
}

// write writes as the core does.
func (p *listener) write(frames [][]byte) {
	p.unsent = append(p.unsent, frames...)
	n, _ := p.conn.Write(p.unsent)
	p.unsent = skip(p.unsent, n)
}

func echo(p *listener, message string) { p.write([][]byte{[]byte(message + "!\n")}) }

// all reads to the end.
func all(t *testing.T, client net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(client)
	if err != nil {
		t.Errorf("the client got %.100q (%d), %v", b, len(b), err)
	}
	return strings.Replace(string(b), "tick\n", "", 1)
}

func TestOtherProtocol(t *testing.T) {
	onBoth(t, transport.EndCut, echo, func(t *testing.T, client net.Conn, p *listener, _ func(func())) {
		b := make([]byte, 0, 15)
		for _, part := range []string{"one\nt", "wo\n"} {
			_, _ = io.WriteString(client, part)
		}
		for !bytes.Contains(b, []byte("two!\n")) {
			n, err := client.Read(b[len(b):cap(b)])
			if b = b[:len(b)+n]; err != nil {
				t.Fatalf("the client got %q, %v", b, err)
			}
		}
		_, _ = io.WriteString(client, "cut\nthree\n")
		if got := strings.Replace(string(b), "tick\n", "", 1) + all(t, client); got != "one!\ntwo!\nbye\n" {
			t.Errorf("the client got %q", got)
		}
		if err := <-p.closed; err.Error() != "cut" {
			t.Errorf("Closed(%v)", err)
		}
	})
}

// Of a tick that comes while nobody writes, the client hears at once.
func TestTick(t *testing.T) {
	onBoth(t, transport.EndCut, echo, func(t *testing.T, client net.Conn, p *listener, core func(func())) {
		b := make([]byte, 5)
		if _, err := io.ReadFull(client, b); err != nil || string(b) != "tick\n" {
			t.Errorf("the client got %q, %v", b, err)
		}
		core(func() { p.conn.Close(protocol.DisconnectShutdown, nil) })
		<-p.closed
	})
}

// TestClose: the core closes, even from within. The peer is not called before Close has
// returned, whatever the end.
func TestClose(t *testing.T) {
	for end, name := range map[transport.End]string{transport.EndAwait: "await", transport.EndLinger: "linger", transport.EndCut: "cut"} {
		t.Run(name, func(t *testing.T) {
			var inside bool // where the transport calls
			closeIt := func(p *listener, _ string) {
				inside = true
				p.conn.Close(protocol.DisconnectShutdown, [][]byte{[]byte(strings.Repeat("x", 1<<20) + "\n")})
				inside = false
			}
			onBoth(t, end, closeIt, func(t *testing.T, client net.Conn, p *listener, _ func(func())) {
				_, _ = io.WriteString(client, "now\n")
				got := make(chan string)
				go func() {
					if end == transport.EndAwait { // the client ends it
						b := make([]byte, 1<<20+1+len("tick\n"))
						_, _ = io.ReadFull(client, b)
						client.Close()
						got <- string(b)
						return
					}
					got <- all(t, client)
					client.Close()
				}()
				if s := strings.Replace(<-got, "tick\n", "", 1); !strings.HasPrefix(s, strings.Repeat("x", 1<<20)+"\n") {
					t.Errorf("the client got %.100q (%d)", s, len(s))
				}
				if err := <-p.closed; !errors.Is(err, protocol.DisconnectShutdown) || inside {
					t.Errorf("Closed(%v), inside %v", err, inside)
				}
			})
		})
	}
}

// TestLinger: the peer hears at once, and the client gets the last bytes though it goes
// on to send.
func TestLinger(t *testing.T) {
	onBoth(t, transport.EndCut, echo, func(t *testing.T, client net.Conn, p *listener, _ func(func())) {
		_, _ = io.WriteString(client, "linger\n"+strings.Repeat("x", 100_000))
		if err := <-p.closed; err.Error() != "linger" {
			t.Errorf("Closed(%v)", err)
		}
		if got := all(t, client); got != "bye\n" {
			t.Errorf("the client got %q", got)
		}
		client.Close()
	})
}

// TestAhead: what is taken beyond what was written ends with a frame, is at least one, and
// no more than fits, however the frames lie in memory.
func TestAhead(t *testing.T) {
	for range 2000 {
		var runs [][]byte
		var ends []int // of the frames
		total := 0
		for range 1 + rand.IntN(4) {
			var run []byte
			for range 1 + rand.IntN(4) {
				f := append(bytes.Repeat([]byte("x"), rand.IntN(1<<rand.IntN(18))), '\n')
				run = append(run, f...)
				total += len(f)
				ends = append(ends, total)
			}
			runs = append(runs, run)
		}
		written, size := rand.IntN(total+1), rand.IntN(2)*rand.IntN(100_000)
		want := 0
		for _, end := range ends {
			if end > written && (want == 0 || end-written <= size) {
				want = end - written
			}
		}
		if got := ahead(new(lines), runs, written, size); got != want {
			t.Fatalf("%d of %v written, up to %d: takes %d, want %d", written, ends, size, got, want)
		}
	}
}
