// Package ingress brings what transports with goroutines of their own received to the
// loops of the clients.
package ingress

import (
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/transport"
)

// Peer is a client as such a transport sees it: everything is posted to its loop.
type Peer struct {
	Loop    *loop.Loop
	Session *session.Session
	// Gone is closed when the client has gone, Ended called in the end, on the loop.
	Gone  func() <-chan struct{}
	Ended func(err error)

	// queued is the weight of received messages that wait for the loop.
	queued atomic.Int32
	drain  chan struct{}
}

// New returns a peer, of which the exported fields are yet to be set.
func New() *Peer { return &Peer{drain: make(chan struct{}, 1)} }

// maxQueued is how many received messages may wait for the loop before the
// transport's reader waits. Large ones weigh more: together they have 512 KiB.
const maxQueued = 32

func weight(msg []byte) int32 { return 1 + int32(len(msg)>>14) }

// Receive copies msg for the loop.
func (p *Peer) Receive(msg []byte) {
	if p.queued.Add(weight(msg)) > maxQueued {
		select {
		case <-p.drain:
		case <-p.Gone():
		}
	}
	in := inbounds.Get().(*inbound)
	in.p = p
	in.buf = append(in.buf[:0], msg...)
	p.Loop.Post(in)
}

// Writable has the queue flushed.
func (p *Peer) Writable() { p.Loop.Post(&Call{p.Session, p.Session.Flush}) }

// Closed ends the session, behind what was received.
func (p *Peer) Closed(err error) { p.Loop.Post(&Call{p.Session, func() { p.Ended(err) }}) }

// inbound is a received message on its way to the loop.
type inbound struct {
	p   *Peer
	buf []byte
}

var inbounds = sync.Pool{New: func() any { return new(inbound) }}

// keepInbound is the largest buffer that is kept for other messages.
const keepInbound = 16 << 10

// Run hands the message to the session.
func (in *inbound) Run() {
	p := in.p
	p.Session.Receive(in.buf)
	w := weight(in.buf)
	if left := p.queued.Add(-w); left <= maxQueued/2 && left+w > maxQueued/2 {
		select {
		case p.drain <- struct{}{}:
		default:
		}
	}
	in.p = nil
	if cap(in.buf) <= keepInbound {
		inbounds.Put(in)
	}
}

// Of is the session that the task is for.
func (in *inbound) Of() *session.Session { return in.p.Session }

// Call is a task for one session.
type Call struct {
	Session *session.Session
	F       func()
}

// Run calls F.
func (c *Call) Run() { c.F() }

// Of is the session that the task is for.
func (c *Call) Of() *session.Session { return c.Session }

var (
	_ transport.Peer = (*Peer)(nil)
	_ loop.Task      = (*inbound)(nil)
)
