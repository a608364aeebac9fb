package gyro

import (
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/internal/contain"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Panics is how many panics, of handlers, engines or the node itself, were contained.
// Each is logged as an error, with the client and the stack. If it was not a handler
// that panicked, whose clients get error 100, the client is disconnected with 3004.
func (n *Node) Panics() uint64 { return n.panics.Load() }

// panicked logs a panic, and counts it.
func (n *Node) panicked(client string, reason any, stack []byte, attrs ...any) {
	n.panics.Add(1)
	n.log.Error("panic", append(attrs, "client", client, "panic", fmt.Sprint(reason), "stack", string(stack))...)
}

func (c *Client) panicked(reason any, stack []byte) { c.node().panicked(c.ID(), reason, stack) }

// Panicked implements lane.Client.
func (x *executor) Panicked(reason any, stack []byte) {
	x.client().panicked(reason, stack)
	x.client().post(x.client().crash)
}

// Panicked implements attach.Owner: the subscription fails.
func (o *owner) Panicked(reason any, stack []byte) { (*Client)(o).panicked(reason, stack) }

// panicked is told what panicked in a turn. The client that it was for is ended: what
// its session was in the midst of is not looked at any more.
func (s *shard) panicked(subject, reason any, stack []byte) {
	c := s.entered
	switch e := subject.(type) {
	case *env:
		c = e.client()
	case interface{ Of() *session.Session }:
		c = e.Of().Env().(*env).client()
	}
	s.entered = nil
	s.lanes.Abort()
	if c != nil {
		c.panicked(reason, stack)
		c.crash()
		return
	}
	told := func(reason any, stack []byte) { s.node.panicked("", reason, stack) }
	told(reason, stack)
	if w, ok := subject.(transport.Watcher); ok {
		contain.Do(w.Ended, told)
	}
}

// crash ends a client that something panicked for.
func (c *Client) crash() {
	d := protocol.DisconnectServerError
	if !contain.Do(func() { c.session.Disconnect(d) }, c.panicked) {
		c.session.Abandon(d, func(step func()) { contain.Do(step, c.panicked) })
	}
}

// contained does something for one of several clients, which alone suffers when it
// panics.
func (c *Client) contained(f func()) {
	if !contain.Do(f, c.panicked) {
		c.crash()
	}
}

// closeReason is the disconnect that the transport found, if there is one in err.
func (c *Client) closeReason(err error) protocol.Disconnect {
	if p, ok := errors.AsType[*transport.Panic](err); ok {
		c.panicked(p.Reason, p.Stack)
		return protocol.DisconnectServerError
	}
	if d, ok := errors.AsType[protocol.Disconnect](err); ok {
		return d
	}
	return protocol.DisconnectConnectionClosed
}
