package wstest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// framer adds no envelope, only what separates messages.
type framer struct{ encoding protocol.Encoding }

func (f *framer) Encoding() protocol.Encoding { return f.encoding }
func (f *framer) Headroom() int               { return 0 }
func (f *framer) Costly() bool                { return false }
func (f *framer) Frame(buf []byte) []byte {
	if f.encoding == protocol.JSON {
		buf = append(buf, '\n')
	}
	return buf
}

var framers = [...]*framer{{protocol.JSON}, {protocol.Protobuf}}

// Pipe opens a connection in memory to an acceptor. It ends with the test.
func Pipe(tb testing.TB, a transport.Acceptor) *Client {
	tb.Helper()
	c, err := Open(context.Background(), tb, a, protocol.JSON)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Open is Pipe with a choice of the request's context and the encoding. The error
// is the acceptor's.
func Open(ctx context.Context, tb testing.TB, a transport.Acceptor, e protocol.Encoding) (*Client, error) {
	p := &pipe{client: newClient(tb, e), gone: make(chan struct{})}
	p.state.L = &p.mu
	p.client.conn = p
	peer, err := a.Accept(ctx, p, transport.Info{Name: "pipe", Framer: framers[e], RemoteAddr: "192.0.2.1:1234"})
	if err != nil {
		return nil, err
	}
	p.peer = peer
	go func() {
		<-p.gone
		p.peerMu.Lock()
		defer p.peerMu.Unlock()
		p.peer.Closed(p.cause)
	}()
	tb.Cleanup(p.drop)
	return p.client, nil
}

var errGone = errors.New("client has gone")

// pipe implements transport.Conn.
type pipe struct {
	client *Client
	peer   transport.Peer
	peerMu sync.Mutex // one call of the peer at a time

	mu     sync.Mutex
	state  sync.Cond // paused or closed changed
	paused bool
	stuck  bool
	closed bool
	cause  error
	gone   chan struct{}
}

func (p *pipe) Write(frames [][]byte) (n int, err error) {
	p.mu.Lock()
	closed, stuck := p.closed, p.stuck
	p.mu.Unlock()
	switch {
	case closed:
		return 0, errGone
	case stuck:
		return 0, nil
	}
	for _, f := range frames {
		p.client.received(f)
		n += len(f)
	}
	return n, nil
}

func (p *pipe) Close(d protocol.Disconnect, frames [][]byte) {
	if !p.end(d) {
		return
	}
	for _, f := range frames {
		p.client.received(f)
	}
	p.client.finish(d)
}

func (p *pipe) Pause(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
	p.state.Broadcast()
}

// send is the transport's reader: it waits during a pause.
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

// end ends the connection. It reports false if that was done before.
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

// Stick(true) has a Pipe's client take no more bytes, Stick(false) ends that.
func (c *Client) Stick(stuck bool) {
	p := c.conn.(*pipe)
	p.mu.Lock()
	p.stuck = stuck
	p.mu.Unlock()
	if !stuck {
		p.peerMu.Lock()
		defer p.peerMu.Unlock()
		p.peer.Writable()
	}
}

// Framer returns the framer of a Pipe's connections, which adds no envelope.
func Framer(e protocol.Encoding) transport.Framer { return framers[e] }
