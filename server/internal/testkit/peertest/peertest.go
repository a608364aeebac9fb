// Package peertest has the core's end of connections, for tests of transports.
package peertest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport"
)

// Peer records the calls of its transport.
type Peer struct {
	Conn     transport.Conn
	Info     transport.Info
	Received chan string
	Ready    chan struct{} // has an element after Writable
	Ended    chan error    // gets the error of Closed
	gone     chan struct{} // closed by Closed
	panics   string
}

// Receive implements transport.Peer.
func (p *Peer) Receive(msg []byte) {
	if p.panics == "Receive" {
		panic("in Receive")
	}
	p.Received <- string(msg)
}

// Writable implements transport.Peer.
func (p *Peer) Writable() {
	if p.panics == "Writable" {
		panic("in Writable")
	}
	select {
	case p.Ready <- struct{}{}:
	default:
	}
}

// Closed implements transport.Peer. It panics if it is called again.
func (p *Peer) Closed(err error) {
	p.Ended <- err
	close(p.gone)
}

// Frames returns a frame of each message.
func (p *Peer) Frames(messages ...string) (list [][]byte) {
	for _, m := range messages {
		f := p.Info.Framer
		list = append(list, f.Frame(append(make([]byte, f.Headroom()), m...)))
	}
	return list
}

// Write writes frames as the core does: the rest again when the transport asks for it.
func (p *Peer) Write(frames ...[]byte) error {
	out := bytes.Join(frames, nil)
	for {
		n, err := p.Conn.Write([][]byte{out})
		if out = out[n:]; len(out) == 0 || err != nil {
			return err
		}
		select {
		case <-p.Ready:
		case <-p.gone:
			return errors.New("the connection has ended")
		case <-time.After(wait.Limit):
			return errors.New("the transport does not ask for more")
		}
	}
}

// Acceptor makes connections Peers.
type Acceptor struct {
	Peers  chan *Peer
	Refuse error
	// Panics names the method that panics: Accept, or Receive or Writable of peers.
	Panics string
}

// NewAcceptor returns an acceptor that takes connections.
func NewAcceptor() *Acceptor { return &Acceptor{Peers: make(chan *Peer, 100)} }

// Accept implements transport.Acceptor.
func (a *Acceptor) Accept(_ context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	if a.Panics == "Accept" {
		panic("in Accept")
	}
	if a.Refuse != nil {
		return nil, a.Refuse
	}
	p := &Peer{
		Conn: c, Info: info, panics: a.Panics,
		Received: make(chan string, 100), Ready: make(chan struct{}, 1), Ended: make(chan error, 1), gone: make(chan struct{}),
	}
	a.Peers <- p
	return p, nil
}

// Await returns the next element of ch.
func Await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	return wait.Receive(t, "an event", ch)
}
