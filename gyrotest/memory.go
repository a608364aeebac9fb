package gyrotest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Open opens a connection in memory to an acceptor, which is a *gyro.Node. It works in bubbles of testing/synctest if
// the node was made there. If the node refuses the connection, it has ended when Open returns: see Client.Disconnected.
func Open(tb testing.TB, a transport.Acceptor, o *Options) *Client {
	tb.Helper()
	options := orZero(o)
	p := &pipe{gone: make(chan struct{})}
	p.state.L = &p.mu
	p.client = newClient(tb, options, p)
	peer, err := a.Accept(cmp.Or(options.Context, context.Background()), p, transport.Info{
		Name: "memory", Framer: Framer(options.Encoding), RemoteAddr: "192.0.2.1:1234",
		Header: func() http.Header { return options.Header.Clone() },
	})
	if err != nil {
		var d protocol.Disconnect
		if !errors.As(err, &d) {
			tb.Fatalf("gyrotest: the node takes no connection: %v", err)
		}
		p.Close(d, nil)
		return p.client
	}
	p.peer = peer
	go func() {
		<-p.gone
		p.peerMu.Lock()
		defer p.peerMu.Unlock()
		p.peer.Closed(p.cause)
	}()
	return p.client
}

// Framer returns the framer of connections in memory, for a transport of a test's own: separators between messages, and
// no envelope.
func Framer(e protocol.Encoding) transport.Framer { return framers[e] }

type framer struct{ encoding protocol.Encoding }

var framers = [...]*framer{{protocol.JSON}, {protocol.Protobuf}}

func (f *framer) Encoding() protocol.Encoding { return f.encoding }
func (f *framer) Headroom() int               { return 0 }
func (f *framer) Costly() bool                { return false }
func (f *framer) Frame(buf []byte) []byte {
	if f.encoding == protocol.JSON {
		buf = append(buf, '\n')
	}
	return buf
}

var errGone = errors.New("gyrotest: the client has gone")

type pipe struct {
	client *Client
	peer   transport.Peer
	peerMu sync.Mutex // one call of the peer at a time

	mu      sync.Mutex
	state   sync.Cond // paused or closed has changed
	paused  bool
	stalled bool
	closed  bool
	cause   error
	gone    chan struct{} // closed with the connection
}

// Write implements transport.Conn.
func (p *pipe) Write(frames [][]byte) (n int, err error) {
	p.mu.Lock()
	closed, stalled := p.closed, p.stalled
	p.mu.Unlock()
	switch {
	case closed:
		return 0, errGone
	case stalled:
		return 0, nil
	}
	for _, f := range frames {
		p.client.received(f)
		n += len(f)
	}
	return n, nil
}

// Close implements transport.Conn.
func (p *pipe) Close(d protocol.Disconnect, frames [][]byte) {
	if !p.end(d) {
		return
	}
	for _, f := range frames {
		p.client.received(f)
	}
	p.client.finish(d)
}

// Pause implements transport.Conn.
func (p *pipe) Pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	p.state.Broadcast()
}

// send waits during a pause, like the reader of a transport.
func (p *pipe) send(msg []byte) {
	p.mu.Lock()
	for p.paused && !p.closed {
		p.state.Wait()
	}
	p.mu.Unlock()
	p.peerMu.Lock()
	defer p.peerMu.Unlock()
	select {
	case <-p.gone:
	default:
		p.peer.Receive(msg)
	}
}

func (p *pipe) drop() {
	if p.end(errGone) {
		p.client.finish(protocol.Disconnect{})
	}
}

func (p *pipe) end(cause error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed, p.cause = true, cause
	p.state.Broadcast()
	close(p.gone)
	return true
}

// Stall(true) makes a client in memory take no more bytes, like one whose network is too slow; Stall(false) ends that.
// The node disconnects it with 3008 when Config.QueueMaxSize is reached. A client of Dial fails the test.
func (c *Client) Stall(stalled bool) {
	c.tb.Helper()
	p, ok := c.conn.(*pipe)
	if !ok {
		c.tb.Fatal("gyrotest: only a client in memory can stall")
	}
	p.mu.Lock()
	p.stalled = stalled
	p.mu.Unlock()
	if !stalled {
		p.peerMu.Lock()
		defer p.peerMu.Unlock()
		p.peer.Writable()
	}
}
