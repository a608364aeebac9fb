// Package peertest has the core's end of connections, for tests of transports.
package peertest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport"
)

// Peer notes the calls of its transport. It fails its test if they overlap, or come after Closed.
type Peer struct {
	// Conn is for the goroutines of the test, Inside for OnReceive. They differ for a connection on a loop.
	Conn, Inside transport.Conn
	Info         transport.Info
	Context      context.Context // of the connection
	// OnReceive gets each message; nil: Messages does.
	OnReceive func(msg []byte)

	Messages chan string
	Ready    chan struct{} // has an element after Writable
	Ended    chan error    // gets the error of Closed

	t             testing.TB
	called, ended atomic.Bool
}

// New returns the peer of a connection that the transport calls inside, and the test outside.
func New(t testing.TB, ctx context.Context, inside, outside transport.Conn, info transport.Info) *Peer {
	return &Peer{
		Conn: outside, Inside: inside, Info: info, Context: ctx, t: t,
		Messages: make(chan string, 100), Ready: make(chan struct{}, 1), Ended: make(chan error, 2),
	}
}

func (p *Peer) enter() func() {
	if p.called.Swap(true) {
		p.t.Error("calls of the peer overlap")
	}
	if p.ended.Load() {
		p.t.Error("the peer is called after Closed")
	}
	return func() { p.called.Store(false) }
}

// Receive implements transport.Peer.
func (p *Peer) Receive(msg []byte) {
	defer p.enter()()
	if p.OnReceive != nil {
		p.OnReceive(msg)
		return
	}
	p.Messages <- string(msg)
}

// Writable implements transport.Peer.
func (p *Peer) Writable() {
	defer p.enter()()
	select {
	case p.Ready <- struct{}{}:
	default:
	}
}

// Closed implements transport.Peer.
func (p *Peer) Closed(err error) {
	defer p.enter()()
	p.ended.Store(true)
	p.Ended <- err
}

// Message waits for the next message.
func (p *Peer) Message() string {
	p.t.Helper()
	return wait.Receive(p.t, "a message", p.Messages)
}

// ClosedWith waits for the error of Closed.
func (p *Peer) ClosedWith() error {
	p.t.Helper()
	return wait.Receive(p.t, "Closed", p.Ended)
}
