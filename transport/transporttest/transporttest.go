// Package transporttest is the conformance suite of transports: it holds a connection to the contract of package
// transport. docs/transport-of-your-own.md has a whole test.
package transporttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/internal/peertest"
)

// Client is the client's end of one connection. One goroutine at a time calls Send, and one Receive.
type Client interface {
	// Send sends JSON without line breaks. It may wait until the server has read it.
	Send(message []byte) error
	// Receive waits for the next message, without the envelope of the transport. The error is the protocol.Disconnect
	// that the client was told, or else any other one. Receive takes as little as it can from the connection, and
	// nothing takes any more between its calls: a client that does not call it is slow.
	Receive() ([]byte, error)
	// Close ends the connection as a client does that vanishes.
	Close() error
}

// Serve starts a server of the transport, which ends with the test and gives its connections to a, and returns a
// function that connects a client. A refused client may be an error of that function, or of Receive.
//
// If the mode is not transport.Bidirectional, the client opens the connection with all that it has to say, and Send
// is not called.
type Serve func(t *testing.T, a transport.Acceptor) (connect func() (Client, error))

var parts = []struct {
	name string
	test func(*fixture)
}{
	{"Info", testInfo},
	{"Receive", testReceive},
	{"Write", testWrite},
	{"SlowClient", testSlowClient},
	{"Close", testClose},
	{"CloseTellsNothing", testCloseTellsNothing},
	{"CloseOfASlowClient", testCloseOfASlowClient},
	{"WriteWhileAccepting", testWriteWhileAccepting},
	{"CloseWhileAccepting", testCloseWhileAccepting},
	{"CloseFromAnyGoroutine", testCloseFromAnyGoroutine},
	{"ClientLeaves", testClientLeaves},
	{"Pause", testPause},
	{"Refused", testRefused},
}

// Run runs the suite. It takes some seconds: a client that does not read is given up after a time.
func Run(t *testing.T, serve Serve) {
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			f := &fixture{T: t, peers: make(chan *peertest.Peer, 100)}
			f.dial = serve(t, f)
			part.test(f)
		})
	}
}

// RunOnLoops is Run for transports that use package driver: their connections over sockets live on a loop. It skips the
// test where loops watch no sockets.
func RunOnLoops(t *testing.T, serve Serve) {
	if !poll.Supported() {
		t.Skip("loops watch no sockets on this system")
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			l := loop.New()
			go l.Run()
			t.Cleanup(l.Close)
			f := &fixture{T: t, peers: make(chan *peertest.Peer, 100)}
			f.dial = serve(t, looping{f, l})
			part.test(f)
		})
	}
}

type looping struct {
	*fixture
	loop *loop.Loop
}

func (s looping) NextLoop() transport.Loop { return s.loop.Sockets() }

// AcceptOn implements nodeaccess.Acceptor. The suite uses the connection from its own goroutines.
func (s looping) AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	return s.Accept(ctx, drivertest.OnLoop(l, c), info)
}

type fixture struct {
	*testing.T
	dial  func() (Client, error)
	peers chan *peertest.Peer

	mu    sync.Mutex
	while func(c transport.Conn, info transport.Info) error
}

// during sets a function that is called before further connections are accepted. Its error refuses them.
func (f *fixture) during(do func(c transport.Conn, info transport.Info) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.while = do
}

func (f *fixture) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	p := peertest.New(f, ctx, c, c, info)
	if info.Mode != transport.Bidirectional {
		p.OnReceive = func([]byte) {} // the message that opened the connection
	}
	f.mu.Lock()
	while := f.while
	f.mu.Unlock()
	if while != nil {
		if err := while(c, info); err != nil {
			return nil, err
		}
	}
	f.peers <- p
	return p, nil
}

func (f *fixture) connect() (Client, *peertest.Peer) {
	f.Helper()
	c, err := f.dial()
	if err != nil {
		f.Fatalf("the client cannot connect: %v", err)
	}
	f.Cleanup(func() { _ = c.Close() })
	return c, wait.Receive(f, "Accept", f.peers)
}

func frame(f transport.Framer, message string) []byte {
	buf := make([]byte, f.Headroom(), f.Headroom()+len(message))
	if f.Encoding() == protocol.Protobuf {
		buf = binary.AppendUvarint(buf, uint64(len(message)))
	}
	return bytes.Clone(f.Frame(append(buf, message...)))
}

func message(n, size int) string {
	return fmt.Sprintf(`{"id":%d,"rpc":{"data":"%s"}}`, n+1, bytes.Repeat([]byte{'a' + byte(n%26)}, size))
}

func (f *fixture) want(c Client, message string) {
	f.Helper()
	type received struct {
		message []byte
		err     error
	}
	got := make(chan received, 1)
	go func() {
		m, err := c.Receive()
		got <- received{m, err}
	}()
	if r := wait.Receive(f, "a message for the client", got); r.err != nil || string(r.message) != message {
		f.Fatalf("the client received %.80q, %v, want %.80q", r.message, r.err, message)
	}
}

// wantEnd waits until the client learns of the end, and of d if it learns of any.
func (f *fixture) wantEnd(c Client, d protocol.Disconnect) {
	f.Helper()
	got := make(chan error, 1)
	go func() {
		m, err := c.Receive()
		if err == nil {
			err = fmt.Errorf("%w: a message: %.80q", errNoEnd, m)
		}
		got <- err
	}()
	err := wait.Receive(f, "the end of the connection", got)
	told := protocol.Disconnect{}
	if errors.Is(err, errNoEnd) || errors.As(err, &told) && told.Code != d.Code {
		f.Errorf("at the end of the connection the client received %v, want %v or nothing", err, d)
	}
}

var errNoEnd = errors.New("not the end")

func testInfo(f *fixture) {
	_, first := f.connect()
	_, second := f.connect()
	for _, p := range []*peertest.Peer{first, second} {
		if p.Info.Name == "" || p.Info.Framer == nil || p.Context == nil {
			f.Fatalf("Accept got the context %v and the Info %+v: Name, Framer and the context are required", p.Context, p.Info)
		}
		if h := p.Info.Framer.Headroom(); h < 0 {
			f.Errorf("Headroom is %d", h)
		}
	}
	if first.Info.Framer != second.Info.Framer {
		f.Error("two connections of one kind have framers that are not equal, so each publication is encoded for each of them")
	}
}

func testReceive(f *fixture) {
	c, p := f.connect()
	if p.Info.Mode != transport.Bidirectional {
		f.Skip("the client sends nothing more")
	}
	const messages = 50
	for n := range messages {
		if err := c.Send([]byte(message(n, n*n))); err != nil {
			f.Fatal(err)
		}
		if got := p.Message(); got != message(n, n*n) {
			f.Fatalf("Receive got %.80q, want %.80q", got, message(n, n*n))
		}
	}
}

func testWrite(f *fixture) {
	c, p := f.connect()
	for n := range 30 {
		var frames [][]byte
		for i := range 1 + n%4 {
			frames = append(frames, frame(p.Info.Framer, message(n+i, 10*n)))
		}
		f.write(p, frames...)
		for i := range 1 + n%4 {
			f.want(c, message(n+i, 10*n))
		}
	}
}

func (f *fixture) write(p *peertest.Peer, frames ...[]byte) {
	f.Helper()
	for len(frames) > 0 {
		all := bytes.Join(frames, nil)
		n, err := p.Conn.Write(frames)
		if err != nil || n < 0 || n > len(all) {
			f.Fatalf("Write took %d of %d bytes: %v", n, len(all), err)
		}
		if !bytes.Equal(bytes.Join(frames, nil), all) {
			f.Fatal("Write has changed the frames, which other connections share")
		}
		for _, b := range frames {
			clear(b)
		}
		if frames = nil; n < len(all) {
			wait.Receive(f, "Writable, after Write took less than all", p.Ready)
			frames = [][]byte{all[n:]}
		}
	}
}

// most is sent to a client that does not read, in bytes.
const most = 256 << 20

// congest writes until the client, which does not read, has no room. It returns the frame that it wrote again and again,
// and how many bytes were taken.
func (f *fixture) congest(p *peertest.Peer) (whole []byte, taken int) {
	f.Helper()
	whole = frame(p.Info.Framer, message(0, 16<<10))
	for taken < most {
		part := whole[taken%len(whole):]
		n, err := p.Conn.Write([][]byte{bytes.Clone(part)})
		if err != nil || n < 0 || n > len(part) {
			f.Fatalf("Write took %d of %d bytes: %v", n, len(part), err)
		}
		if taken += n; n < len(part) {
			return whole, taken
		}
	}
	f.Fatalf("Write took %d bytes for a client that does not read: the transport keeps them in memory without a bound", taken)
	return nil, 0
}

func testSlowClient(f *fixture) {
	c, p := f.connect()
	whole, taken := f.congest(p)
	received := make(chan error, 1)
	go func() { received <- receiveUntil(c, message(0, 16<<10), message(1, 10)) }() // the client reads again
	rest := [][]byte{whole[taken%len(whole):], frame(p.Info.Framer, message(1, 10))}
	if taken%len(whole) == 0 {
		rest = rest[1:]
	}
	wait.Receive(f, "Writable, after Write took less than all", p.Ready)
	f.write(p, rest...)
	if err := wait.Receive(f, "all that was written", received); err != nil {
		f.Error(err)
	}
}

func receiveUntil(c Client, same, last string) error {
	for {
		m, err := c.Receive()
		switch {
		case err != nil:
			return fmt.Errorf("the client lost the connection: %w", err)
		case string(m) == last:
			return nil
		case string(m) != same:
			return fmt.Errorf("the client received %.80q", m)
		}
	}
}

func testClose(f *fixture) {
	c, p := f.connect()
	f.write(p, frame(p.Info.Framer, message(0, 10)))
	rest := [][]byte{frame(p.Info.Framer, message(1, 10)), frame(p.Info.Framer, message(2, 100))}
	p.Conn.Close(protocol.DisconnectForceNoReconnect, rest)
	p.Conn.Close(protocol.DisconnectShutdown, [][]byte{frame(p.Info.Framer, message(9, 10))})
	for n, size := range []int{10, 10, 100} {
		f.want(c, message(n, size))
	}
	f.wantEnd(c, protocol.DisconnectForceNoReconnect)
	_ = c.Close()
	_ = p.ClosedWith()
	f.over(p)
}

func (f *fixture) over(p *peertest.Peer) {
	f.Helper()
	if n, _ := p.Conn.Write([][]byte{frame(p.Info.Framer, message(0, 10))}); n != 0 {
		f.Errorf("Write took %d bytes after the end", n)
	}
	p.Conn.Pause(true)
	p.Conn.Pause(false)
	p.Conn.Close(protocol.DisconnectShutdown, nil)
}

func testCloseTellsNothing(f *fixture) {
	c, p := f.connect()
	p.Conn.Close(protocol.DisconnectConnectionClosed, nil)
	_ = p.ClosedWith()
	got := make(chan error, 1)
	go func() {
		_, err := c.Receive()
		got <- err
	}()
	var told protocol.Disconnect
	if err := wait.Receive(f, "the end of the connection", got); err == nil || errors.As(err, &told) {
		f.Errorf("Close with %d told the client %v", protocol.DisconnectConnectionClosed.Code, err)
	}
}

func testCloseOfASlowClient(f *fixture) {
	_, p := f.connect()
	whole, taken := f.congest(p)
	p.Conn.Close(protocol.DisconnectSlow, [][]byte{bytes.Clone(whole[taken%len(whole):])})
	_ = p.ClosedWith()
}

func testWriteWhileAccepting(f *fixture) {
	type written struct {
		rest []byte
		err  error
	}
	left := make(chan written, 1)
	f.during(func(c transport.Conn, info transport.Info) error {
		go func() {
			b := frame(info.Framer, message(0, 100))
			n, err := c.Write([][]byte{b})
			left <- written{b[n:], err}
		}()
		return nil
	})
	c, p := f.connect()
	w := wait.Receive(f, "Write during Accept", left)
	if w.err != nil {
		f.Fatalf("Write during Accept: %v", w.err)
	}
	if len(w.rest) > 0 {
		wait.Receive(f, "Writable, after Write took less than all", p.Ready)
		f.write(p, w.rest)
	}
	f.want(c, message(0, 100))
}

func testCloseWhileAccepting(f *fixture) {
	returned := make(chan struct{})
	f.during(func(c transport.Conn, _ transport.Info) error {
		go func() {
			defer close(returned)
			c.Close(protocol.DisconnectForceNoReconnect, nil)
		}()
		return nil
	})
	c, err := f.dial()
	if err == nil { // else the client was told at once
		f.Cleanup(func() { _ = c.Close() })
		f.wantEnd(c, protocol.DisconnectForceNoReconnect)
		_ = c.Close()
	}
	wait.Receive(f, "Close during Accept", returned)
	_ = wait.Receive(f, "Accept", f.peers).ClosedWith()
}

func testCloseFromAnyGoroutine(f *fixture) {
	const connections, closes = 10, 4
	var wg sync.WaitGroup
	var peers []*peertest.Peer
	var clients []Client
	for range connections {
		c, p := f.connect()
		peers, clients = append(peers, p), append(clients, c)
		for range closes {
			wg.Go(func() {
				p.Conn.Close(protocol.DisconnectForceNoReconnect, [][]byte{frame(p.Info.Framer, message(0, 10))})
			})
		}
	}
	wg.Wait()
	for i, c := range clients {
		f.want(c, message(0, 10)) // the frames of one Close, and no others
		f.wantEnd(c, protocol.DisconnectForceNoReconnect)
		_ = c.Close()
		_ = peers[i].ClosedWith()
	}
}

func testClientLeaves(f *fixture) {
	c, p := f.connect()
	_ = c.Close()
	_ = p.ClosedWith()
	f.over(p)
}

func testPause(f *fixture) {
	c, p := f.connect()
	if p.Info.Mode != transport.Bidirectional {
		f.Skip("the client sends nothing more")
	}
	const messages, size = 90, 8 << 10
	if err := c.Send([]byte(message(0, size))); err != nil {
		f.Fatal(err)
	}
	p.Message()
	p.Conn.Pause(true)
	p.Conn.Pause(true)
	sent := make(chan error, 1)
	go func() {
		for n := 1; n < messages; n++ {
			if err := c.Send([]byte(message(n, size))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	// A message that another client sends now is received, however long the pause of the first one.
	other, marker := f.connect()
	if err := other.Send([]byte(message(0, 10))); err != nil {
		f.Fatal(err)
	}
	marker.Message()
	if n := len(p.Messages); n > 1 {
		f.Errorf("%d messages were received during a pause; one may have been read before", n)
	}
	p.Conn.Pause(false)
	for n := 1; n < messages; n++ {
		if got := p.Message(); got != message(n, size) {
			f.Fatalf("after the pause, Receive got %.80q, want %.80q", got, message(n, size))
		}
	}
	if err := wait.Receive(f, "the client to have sent everything", sent); err != nil {
		f.Fatal(err)
	}
}

func testRefused(f *fixture) {
	f.during(func(transport.Conn, transport.Info) error {
		return fmt.Errorf("refused: %w", protocol.DisconnectShutdown)
	})
	c, err := f.dial()
	if err != nil {
		return
	}
	f.Cleanup(func() { _ = c.Close() })
	f.wantEnd(c, protocol.DisconnectShutdown)
}
