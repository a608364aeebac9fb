package driver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/driver"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/internal/peertest"
	"github.com/gyrohq/gyro/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is an endpoint: a line is a message.
type lines struct {
	part     []byte
	released chan struct{} // nil, or gets an element
}

func (e *lines) Next(data []byte) (found transport.Found, message, rest []byte) {
	line, rest, whole := bytes.Cut(data, []byte("\n"))
	e.part = append(e.part, line...)
	if !whole {
		return transport.FoundNothing, nil, nil
	}
	message, e.part = e.part, nil
	return transport.FoundMessage, message, rest
}

func (*lines) Control() transport.Step       { return transport.Step{} }
func (*lines) Rest() transport.Step          { return transport.Step{} }
func (*lines) Begin() transport.Step         { return transport.Step{} }
func (*lines) Tick(_, _ bool) transport.Step { return transport.Step{} }
func (*lines) Overdue() transport.Step       { return transport.Step{End: transport.EndCut} }
func (*lines) FrameSize(b []byte) int        { return bytes.IndexByte(b, '\n') + 1 }
func (*lines) Close(d protocol.Disconnect) transport.Step {
	return transport.Step{End: transport.EndLinger, Cause: d}
}
func (*lines) Fail(d protocol.Disconnect, cause error) transport.Step {
	return transport.Step{Write: []byte(d.Reason + "\n"), End: transport.EndLinger, Cause: cause}
}
func (*lines) Timeouts() transport.Timeouts {
	return transport.Timeouts{Write: 2 * time.Second, Await: 2 * time.Second, Close: 2 * time.Second}
}
func (e *lines) Release() {
	if e.released != nil {
		e.released <- struct{}{}
	}
}

// framer ends each frame with a line break.
type framer struct{ _ byte }

func (*framer) Encoding() protocol.Encoding { return protocol.JSON }
func (*framer) Headroom() int               { return 0 }
func (*framer) Costly() bool                { return false }
func (*framer) Frame(buf []byte) []byte     { return append(buf, '\n') }

var info = transport.Info{Name: "lines", Framer: new(framer)}

// client is a transporttest.Client.
type client struct {
	net.Conn
	in *bufio.Reader
}

func (c *client) Send(message []byte) error {
	_, err := c.Write(append(message, '\n'))
	return err
}

func (c *client) Receive() ([]byte, error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if line[0] != '{' {
		return nil, errors.New("told " + string(line))
	}
	return line[:len(line)-1], nil
}

// kind is a kind of connections: how a client dials, and what becomes of an accepted connection.
type kind struct {
	network string
	server  func(nc net.Conn) net.Conn
	client  func(nc net.Conn) net.Conn
	loops   bool // connections live on loops
}

func bare(nc net.Conn) net.Conn { return nc }

func kinds() map[string]kind {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	config := &tls.Config{Certificates: s.TLS.Certificates}
	overTLS := func(nc net.Conn) net.Conn { return tls.Client(nc, &tls.Config{InsecureSkipVerify: true}) }
	return map[string]kind{
		"TCP":       {"tcp", bare, bare, true},
		"Unix":      {"unix", bare, bare, true},
		"TLSServer": {"tcp", func(nc net.Conn) net.Conn { return driver.TLSServer(nc, config) }, overTLS, true},
		"crypto":    {"tcp", func(nc net.Conn) net.Conn { return tls.Server(nc, config) }, overTLS, false},
		"wrapped":   {"tcp", func(nc net.Conn) net.Conn { return struct{ net.Conn }{nc} }, bare, false},
	}
}

// listen accepts connections until the test ends, and returns how to dial.
func (k kind) listen(t *testing.T, serve func(nc net.Conn)) func() (*client, error) {
	t.Helper()
	address := "127.0.0.1:0"
	if k.network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(k.network, address)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			serve(k.server(nc))
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	return func() (*client, error) {
		nc, err := net.Dial(k.network, ln.Addr().String())
		if err != nil {
			return nil, err
		}
		_ = nc.SetDeadline(time.Now().Add(wait.Limit))
		nc = k.client(nc)
		if secured, ok := nc.(*tls.Conn); ok {
			err = secured.Handshake()
		}
		return &client{nc, bufio.NewReader(nc)}, err
	}
}

// TestContract: connections of all kinds keep the contract of transports, with goroutines and on loops.
func TestContract(t *testing.T) {
	for name, k := range kinds() {
		serve := func(t *testing.T, a transport.Acceptor) func() (transporttest.Client, error) {
			dial := k.listen(t, func(nc net.Conn) { driver.Serve(context.Background(), a, nc, new(lines), info, nil) })
			return func() (transporttest.Client, error) { return dial() }
		}
		t.Run(name+" with goroutines", func(t *testing.T) {
			t.Parallel()
			transporttest.Run(t, serve)
		})
		if k.loops {
			t.Run(name+" on loops", func(t *testing.T) {
				t.Parallel()
				transporttest.RunOnLoops(t, serve)
			})
		}
	}
}

// acceptor notes where its connections live. It refuses them with err, unless that is nil.
type acceptor struct {
	t       *testing.T
	loop    *loop.Loop
	peers   chan *peertest.Peer
	onLoops chan bool
	err     error
}

func newAcceptor(t *testing.T) *acceptor {
	if !poll.Supported() {
		t.Skip("loops watch no sockets here")
	}
	a := &acceptor{t: t, loop: loop.New(), peers: make(chan *peertest.Peer, 1), onLoops: make(chan bool, 1)}
	go a.loop.Run()
	t.Cleanup(a.loop.Close)
	return a
}

func (a *acceptor) accept(ctx context.Context, c, outside transport.Conn, info transport.Info, onLoop bool) (transport.Peer, error) {
	a.onLoops <- onLoop
	if a.err != nil {
		return nil, a.err
	}
	p := peertest.New(a.t, ctx, c, outside, info)
	a.peers <- p
	return p, nil
}

func (a *acceptor) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return a.accept(ctx, c, c, info, false)
}

func (a *acceptor) NextLoop() transport.Loop { return a.loop.Sockets() }

func (a *acceptor) AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return a.accept(ctx, c, drivertest.OnLoop(l, c), info, true)
}

// TestServe: sockets live on loops, and other connections have goroutines. Early bytes come first, the peer hears of the
// end, and the endpoint is released last.
func TestServe(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			a := newAcceptor(t)
			released := make(chan struct{}, 2)
			dial := k.listen(t, func(nc net.Conn) {
				driver.Serve(context.Background(), a, nc, &lines{released: released}, info, []byte("one\ntw"))
			})
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if onLoop := wait.Receive(t, "Accept", a.onLoops); onLoop != k.loops {
				t.Errorf("on a loop: %v", onLoop)
			}
			if err := c.Send([]byte("o")); err != nil {
				t.Fatal(err)
			}
			p := wait.Receive(t, "Accept", a.peers)
			if one, two := p.Message(), p.Message(); one != "one" || two != "two" {
				t.Errorf("received %q, %q", one, two)
			}
			if k.network == "tcp" && p.Info.RemoteAddr != c.LocalAddr().String() {
				t.Errorf("remote address %q, want %s", p.Info.RemoteAddr, c.LocalAddr())
			}
			p.Conn.Close(protocol.DisconnectShutdown, nil)
			if err := p.ClosedWith(); !errors.Is(err, protocol.DisconnectShutdown) {
				t.Errorf("closed with %v", err)
			}
			c.Close()
			wait.Receive(t, "Release", released)
		})
	}
}

// TestRefused: the endpoint tells a refused client why, and is released.
func TestRefused(t *testing.T) {
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			a := newAcceptor(t)
			a.err = protocol.DisconnectShutdown
			released := make(chan struct{}, 2)
			dial := k.listen(t, func(nc net.Conn) {
				driver.Serve(context.Background(), a, nc, &lines{released: released}, info, nil)
			})
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if line, err := c.in.ReadString('\n'); err != nil || line != protocol.DisconnectShutdown.Reason+"\n" {
				t.Errorf("the client received %q, %v", line, err)
			}
			c.Close()
			wait.Receive(t, "Release", released)
		})
	}
}

// TestNoHandshake: a client that does not speak TLS is not accepted, and the endpoint is released.
func TestNoHandshake(t *testing.T) {
	k := kinds()["TLSServer"]
	k.client = bare
	a := newAcceptor(t)
	released := make(chan struct{}, 2)
	dial := k.listen(t, func(nc net.Conn) {
		driver.Serve(context.Background(), a, nc, &lines{released: released}, info, nil)
	})
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send([]byte("this is no TLS")); err != nil {
		t.Fatal(err)
	}
	wait.Receive(t, "Release", released)
	if len(a.onLoops) > 0 {
		t.Error("accepted")
	}
}
