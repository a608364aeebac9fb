package client

import (
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/transport"
)

// postingPeer implements transport.Peer for a transport with goroutines of its own: it posts everything to the loop.
type postingPeer struct {
	Loop    *loop.Loop
	Session *session.Session
	// Gone is closed when the client has gone.
	Gone func() <-chan struct{}
	// Ended is called on the loop.
	Ended func(err error)

	// queued is the weight of the messages that wait for the loop.
	queued atomic.Int32
	drain  chan struct{}
}

// newPostingPeer: the caller sets the exported fields.
func newPostingPeer() *postingPeer { return &postingPeer{drain: make(chan struct{}, 1)} }

// maxQueued is how many messages may wait for the loop before the reader waits. Each 16 KiB count as one more, so at
// most some 512 KiB wait.
const maxQueued = 32

func inboundWeight(msg []byte) int32 { return 1 + int32(len(msg)>>14) }

// Receive posts a copy of msg.
func (p *postingPeer) Receive(msg []byte) {
	if p.queued.Add(inboundWeight(msg)) > maxQueued {
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

func (p *postingPeer) Writable() { p.Loop.Post(&sessionCall{p.Session, p.Session.Flush}) }

// Closed comes after the messages that were received.
func (p *postingPeer) Closed(err error) {
	p.Loop.Post(&sessionCall{p.Session, func() { p.Ended(err) }})
}

// inbound is a received message on its way to the loop.
type inbound struct {
	p   *postingPeer
	buf []byte
}

var inbounds = sync.Pool{New: func() any { return new(inbound) }}

// maxPooledInbound is the largest buffer that is used again; bytes.
const maxPooledInbound = 16 << 10

func (in *inbound) Run() {
	p := in.p
	p.Session.Receive(in.buf)
	w := inboundWeight(in.buf)
	if left := p.queued.Add(-w); left <= maxQueued/2 && left+w > maxQueued/2 {
		select {
		case p.drain <- struct{}{}:
		default:
		}
	}
	in.p = nil
	if cap(in.buf) <= maxPooledInbound {
		inbounds.Put(in)
	}
}

func (in *inbound) Of() *session.Session { return in.p.Session }

// sessionCall is a loop.Task for one session: a call of F.
type sessionCall struct {
	Session *session.Session
	F       func()
}

func (c *sessionCall) Run() { c.F() }

func (c *sessionCall) Of() *session.Session { return c.Session }

var (
	_ transport.Peer = (*postingPeer)(nil)
	_ loop.Task      = (*inbound)(nil)
)
