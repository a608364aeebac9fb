package websocket

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// converse goes through what every kind of stream must do, up to the end.
func converse(t *testing.T, c *testClient, p *testPeer) {
	t.Helper()
	long := testText(60000)
	c.send(text("hello"), frame{Op: rfc6455.OpText, Payload: "frag"}, frame{Fin: true, Op: rfc6455.OpPing, Payload: "in between"},
		frame{Fin: true, Payload: "mented"}, binFr("\x00\xff"), text(long), text(""))
	for _, want := range []string{"hello", "fragmented", "\x00\xff", long, ""} {
		if got := p.Message(); got != want {
			t.Fatalf("server got %.100q (%d), want %.100q (%d)", got, len(got), want, len(want))
		}
	}
	c.expect(frame{Fin: true, Op: rfc6455.OpPong, Payload: "in between"})
	p.writeAll(frames("one", "two", long, "three"))
	c.expect(text("one"), text("two"), text(long), text("three"))
	c.send(frame{Fin: true, Op: rfc6455.OpPong, Payload: "unasked"}, text("more"))
	p.Message()
	p.Conn.Close(protocol.DisconnectForceReconnect, frames("last"))
	c.expect(text("last"), closeFr(3011, "force reconnect"))
	c.send(text("discarded"), closeFr(3011, ""))
	c.expectEOF()
	if err := p.ClosedWith(); !errors.Is(err, protocol.DisconnectForceReconnect) {
		t.Errorf("Closed(%v)", err)
	}
	if n, err := p.Conn.Write(frames("x")); n != 0 || err == nil {
		t.Errorf("Write after the end: %d, %v", n, err)
	}
	p.Conn.Close(protocol.DisconnectShutdown, nil)
	p.Conn.Pause(false)
}

// writeAll writes like the core: what is not taken is written when Writable says.
func (p *testPeer) writeAll(list [][]byte) {
	p.t.Helper()
	for {
		n, err := p.Conn.Write(list)
		if err != nil {
			p.t.Fatal(err)
		}
		if list = skip(list, n); len(list) == 0 {
			return
		}
		wait.Receive(p.t, "Writable", p.Ready)
	}
}

func TestConversation(t *testing.T) {
	s := newServer(t, Config{})
	c, p := s.connect("/", nil)
	converse(t, c, p)
}

func TestTLS(t *testing.T) {
	s := &testServer{t: t, peers: make(chan *testPeer, 1)}
	s.Server = httptest.NewTLSServer(NewHandler(s, Config{}))
	defer s.Server.Close()
	tc := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	c, _ := newClient(t, tc, "/", nil)
	converse(t, c, wait.Receive(t, "a peer", s.peers))
}

// TestEarlyData: a client may send right behind its request.
func TestEarlyData(t *testing.T) {
	s := newServer(t, Config{})
	long := testText(30000) // goes beyond the server's buffer
	c, p := s.connect("/", nil, text("early"), text(long))
	for _, want := range []string{"early", long} {
		if got := p.Message(); got != want {
			t.Fatalf("got %.50q", got)
		}
	}
	converse(t, c, p)
}

func TestEarlyClose(t *testing.T) {
	s := newServer(t, Config{})
	c, p := s.connect("/", nil, closeFr(1000, "never mind"))
	c.expect(closeFr(1000, ""))
	c.expectEOF()
	p.ClosedWith()
}

// TestViolationsOnTheWire: each gets its Close frame, the peer hears at once, and
// what the client still sends does not keep the frame from arriving.
func TestViolationsOnTheWire(t *testing.T) {
	s := newServer(t, Config{})
	for _, tt := range frametest.Violations(64 << 10) {
		t.Run(tt.Name, func(t *testing.T) {
			c, p := s.connect("/", nil)
			c.raw(tt.Data)
			c.raw(make([]byte, 50000))
			c.expect(closeFr(tt.Code, tt.Reason))
			var got *rfc6455.CloseError
			if err := p.ClosedWith(); !errors.As(err, &got) || *got != (rfc6455.CloseError{Code: tt.Code, Reason: tt.Reason}) {
				t.Errorf("Closed(%v)", err)
			}
			c.send(closeFr(tt.Code, ""))
			c.expectEOF()
			c.nc.Close()
		})
	}
}

func TestCompression(t *testing.T) {
	s := newServer(t, Config{Compression: true, CompressionMinSize: 150, MessageSizeLimit: 1000})
	offer := http.Header{"Sec-Websocket-Extensions": {"permessage-deflate"}}
	deflated := func(s string) frame {
		return frame{Fin: true, RSV1: true, Op: rfc6455.OpText, Payload: frametest.Deflate(s)}
	}
	c, p := s.connect("/", offer)
	z := frametest.Deflate(testText(9999))
	c.send(deflated("Hello"), text("plain"), frame{RSV1: true, Op: rfc6455.OpText, Payload: z[:7]}, frame{Fin: true, Payload: z[7:]})
	for _, want := range []string{"Hello", "plain", testText(9999)} {
		if got := p.Message(); got != want {
			t.Fatalf("got %.50q", got)
		}
	}
	f := p.Info.Framer
	p.writeAll([][]byte{
		f.Frame(append(make([]byte, f.Headroom()), testText(300)...)),
		f.Frame(append(make([]byte, f.Headroom()), "short"...)),
	})
	got, err := c.read()
	if err != nil || !got.RSV1 {
		t.Fatalf("client got %v, %v", got, err)
	}
	if plain, err := inflated(got.Payload); err != nil || plain != testText(300) {
		t.Fatalf("client got %v, %v", plain, err)
	}
	c.expect(text("short"))
	c.nc.Close()
	p.ClosedWith()
}

func TestAcceptError(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want frame
	}{
		{protocol.DisconnectShutdown, closeFr(3001, "shutdown")},
		{errors.Join(errTest, protocol.DisconnectConnectionLimit), closeFr(3504, "connection limit")},
		{errTest, closeFr(3004, "internal server error")},
	} {
		s := newServer(t, Config{})
		s.prepare = func(*testPeer) error { return tt.err }
		c, _ := newClient(t, s.dial(), "/", nil)
		c.expect(tt.want)
		c.send(closeFr(1000, ""))
		c.expectEOF()
	}
}

// TestUseWhileAccepting: the core may use a connection before Accept returns.
func TestUseWhileAccepting(t *testing.T) {
	s := newServer(t, Config{})
	s.prepare = func(p *testPeer) error {
		p.write("welcome")
		p.Conn.Close(protocol.DisconnectExpired, nil)
		return nil
	}
	c, p := s.connect("/", nil)
	c.expect(text("welcome"), closeFr(3005, "connection expired"))
	c.nc.Close()
	if err := p.ClosedWith(); !errors.Is(err, protocol.DisconnectExpired) {
		t.Errorf("Closed(%v)", err)
	}
}

func TestAcceptorPanics(t *testing.T) {
	s := newServer(t, Config{})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.prepare = func(*testPeer) error { panic("the acceptor's fault") }
	s.noLoop.Store(true) // acceptors of loops are the core's own
	c, _ := newClient(t, s.dial(), "/?cf_ws_frame_ping_pong=true", nil)
	c.expectEOF()
}

func TestClientVanishes(t *testing.T) {
	for name, vanish := range map[string]func(*net.TCPConn){
		"reset":                func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
		"closes":               func(c *net.TCPConn) { c.Close() },
		"half-closes":          func(c *net.TCPConn) { _ = c.CloseWrite() },
		"closes inside header": func(c *net.TCPConn) { _, _ = c.Write([]byte{0x81}); c.Close() },
		"closes inside frame":  func(c *net.TCPConn) { _, _ = c.Write(masked(text("hello"))[:8]); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, Config{})
			c, p := s.connect("/", nil)
			vanish(c.nc.(*net.TCPConn))
			if err := p.ClosedWith(); err == nil || !strings.Contains(err.Error(), "connection lost") {
				t.Errorf("Closed(%v)", err)
			}
		})
	}
}

func TestPause(t *testing.T) {
	s := newServer(t, Config{})
	c, p := s.connect("/", nil)
	c.send(text("1"))
	p.Message()
	p.Conn.Pause(true)
	p.Conn.Pause(true)
	for range 50 { // more than one read takes
		c.send(text(testText(1000)))
	}
	c.send(text("end"))
	// The kernel may take all of it; what counts is that it is not received. A loop would receive it before
	// what another client sends afterwards. TestFixtures shows the same with goroutines.
	other, marker := s.connect("/", nil)
	other.send(text("marker"))
	marker.Message()
	if n := len(p.Messages); n > 0 {
		t.Fatalf("got %d messages during the pause", n)
	}
	p.Conn.Pause(false)
	for range 50 {
		p.Message()
	}
	if m := p.Message(); m != "end" {
		t.Errorf("got %.20q", m)
	}
	p.Conn.Pause(true)
	c.send(text("discarded"))
	p.Conn.Close(protocol.DisconnectShutdown, nil)
	c.expect(closeFr(3001, "shutdown"))
	c.send(closeFr(3001, ""))
	c.expectEOF()
	p.ClosedWith()
}

// congest writes list over and over until a client that does not read has no room. It returns the number of
// bytes that were taken.
func congest(t *testing.T, p *testPeer, list [][]byte) (taken int) {
	t.Helper()
	whole := len(bytes.Join(list, nil))
	for n := 1; n > 0; taken += n {
		var err error
		if n, err = p.Conn.Write(skip(list, taken%whole)); err != nil {
			t.Fatal(err)
		}
	}
	return taken
}

// writeUntilClosed writes list over and over to a client that does not read, and
// returns why the connection ended.
func writeUntilClosed(t testing.TB, p *testPeer, list [][]byte) error {
	t.Helper()
	for rest := list; ; {
		n, err := p.Conn.Write(rest)
		if err != nil {
			return p.ClosedWith()
		}
		if rest = skip(rest, n); len(rest) == 0 {
			rest = list
			continue
		}
		select {
		case <-p.Ready:
		case err := <-p.Ended:
			return err
		case <-time.After(patience):
			t.Fatal("neither Writable nor Closed")
		}
	}
}

func TestSlowReader(t *testing.T) {
	t.Run("frames", func(t *testing.T) { slowReader(t, false) })
	t.Run("joined", func(t *testing.T) { slowReader(t, true) })
}

func slowReader(t *testing.T, joined bool) {
	t.Parallel()
	for _, size := range []int{10, 5000, 200000} {
		s := newTightServer(t, Config{WriteTimeout: patience})
		c, p := s.connect("/", nil)
		list := frames(testText(size), "b", testText(size+3), "d")
		whole := bytes.Join(list, nil)
		if joined {
			list = [][]byte{whole}
		}
		taken := congest(t, p, list)
		// A ping meanwhile is answered between frames; at least the last one.
		c.send(frame{Fin: true, Op: rfc6455.OpPing, Payload: "1"}, frame{Fin: true, Op: rfc6455.OpPing, Payload: "2"}, text("seen"))
		p.Message()
		c.send(text("read later")) // by another read, before which the pings are answered
		p.Message()

		read := make(chan []byte)
		go func() {
			var got []byte
			for {
				f, err := c.read()
				if err != nil || f.Op == rfc6455.OpClose {
					break
				}
				if f.Op == rfc6455.OpPong {
					got = append(got, "<pong "+f.Payload+">"...)
					continue
				}
				got = append(got, frametest.Unmasked(text(f.Payload))...)
			}
			read <- got
		}()
		wait.Receive(t, "Writable", p.Ready)
		p.writeAll(skip(list, taken%len(whole)))
		p.Conn.Close(protocol.DisconnectShutdown, nil)
		got := wait.Receive(t, "the client's end", read)
		if bytes.Count(got, []byte("<pong 2>")) != 1 {
			t.Errorf("size %d: the latest ping was not answered", size)
		}
		got = bytes.Replace(got, []byte("<pong 1>"), nil, 1) // may have been in time
		got = bytes.Replace(got, []byte("<pong 2>"), nil, 1)
		times := taken/len(whole) + 1
		if !bytes.Equal(got, bytes.Repeat(whole, times)) {
			t.Errorf("size %d: client got %d bytes, want %d", size, len(got), times*len(whole))
		}
		c.nc.Close()
		p.ClosedWith()
	}
}

// TestCloseWhileCongested: the Close frame follows the frame under way and what
// Close was given, and does not stand inside of either.
func TestCloseWhileCongested(t *testing.T) {
	t.Parallel()
	s := newTightServer(t, Config{WriteTimeout: patience})
	c, p := s.connect("/", nil)
	congest(t, p, frames(testText(50000)))
	p.Conn.Close(protocol.DisconnectSlow, nil)
	for {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Op == rfc6455.OpClose {
			if f != closeFr(3008, "slow") {
				t.Errorf("got %v", f)
			}
			break
		}
		if f.Payload != testText(50000) {
			t.Fatal("frame broken")
		}
	}
	c.nc.Close()
	p.ClosedWith()
}

// TestWriteTimeout: a client that does not read is given up in the end, whatever happens to its connection
// meanwhile.
func TestWriteTimeout(t *testing.T) {
	large := frames(testText(1 << 20)) // more than the sockets of both sides hold
	for name, tt := range map[string]struct {
		timeout time.Duration
		end     func(p *testPeer) error // the last bytes that are written
		code    uint32
	}{
		"open":    {50 * time.Millisecond, func(p *testPeer) error { _, err := p.Conn.Write(large); return err }, 3009},
		"closing": {50 * time.Millisecond, func(p *testPeer) error { p.Conn.Close(protocol.DisconnectSlow, large); return nil }, 3008},
		"dropped": {patience, func(p *testPeer) error {
			_, err := p.Conn.Write(large)
			p.Conn.Close(protocol.DisconnectConnectionClosed, nil)
			return err
		}, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTightServer(t, Config{WriteTimeout: tt.timeout})
			c, p := s.connect("/", nil)
			if err := tt.end(p); err != nil {
				t.Fatal(err)
			}
			var d protocol.Disconnect
			if err := p.ClosedWith(); !errors.As(err, &d) || d.Code != tt.code {
				t.Errorf("Closed(%v), want %d", err, tt.code)
			}
			if n, err := p.Conn.Write(frames("x")); n != 0 || err == nil {
				t.Errorf("Write after the end: %d, %v", n, err)
			}
			if _, err := io.Copy(io.Discard, c.nc); err == nil {
				t.Error("the connection was not reset")
			}
		})
	}
}

func TestWriteToVanished(t *testing.T) {
	s := newServer(t, Config{})
	s.prepare = func(p *testPeer) error {
		p.OnReceive = func([]byte) { p.Inside.Pause(true); p.Messages <- "" }
		return nil
	}
	c, p := s.connect("/", nil)
	c.send(text("pause")) // so that only a write can find out
	p.Message()
	_ = c.nc.(*net.TCPConn).SetLinger(0)
	c.nc.Close()
	deadline := time.Now().Add(patience)
	for {
		_, err := p.Conn.Write(frames("x"))
		if err != nil {
			if !onLoops && !errors.Is(err, protocol.DisconnectWriteError) {
				t.Errorf("Write: %v", err)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("writes succeed for ever")
		}
	}
	// A loop hears of it also while it does not read.
	if err := p.ClosedWith(); err == nil || !onLoops && !errors.Is(err, protocol.DisconnectWriteError) {
		t.Errorf("Closed(%v)", err)
	}
}

// TestConcurrentUse drives all methods at once; the race detector and testPeer
// judge.
func TestConcurrentUse(t *testing.T) {
	s := newServer(t, Config{CloseTimeout: time.Second})
	for range 20 {
		c, p := s.connect("/", nil)
		done := make(chan struct{}, 3)
		go func() {
			for range 100 {
				_, _ = p.Conn.Write(frames("a", testText(3000)))
			}
			done <- struct{}{}
		}()
		go func() {
			for i := range 100 {
				p.Conn.Pause(i%2 == 0)
			}
			p.Conn.Close(protocol.DisconnectShutdown, frames("z"))
			done <- struct{}{}
		}()
		go func() {
			defer func() { done <- struct{}{} }()
			for range 100 {
				f, err := c.read()
				if err != nil || f.Op == rfc6455.OpClose {
					return
				}
			}
		}()
		go func() {
			for range p.Messages {
				continue // drain
			}
		}()
		for range 20 {
			_, _ = c.nc.Write(masked(text("m"), frame{Fin: true, Op: rfc6455.OpPing, Payload: "p"}))
		}
		for range 3 {
			wait.Receive(t, "the goroutines", done)
		}
		c.nc.Close()
		p.ClosedWith()
		close(p.Messages)
	}
}
