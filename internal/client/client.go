// Package client is what a connection is inside of the node: a session on its loop, the
// effects of it at the application and the engines, and a place among the other clients.
package client

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/ingress"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/outbox"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Client is one connection. Its methods may be called from any goroutine,
// unless they say otherwise.
type Client struct {
	loop    *Loop
	session session.Session
	timer   loop.Timer
	life    life.Life
	// ctx is what handlers get, if the application gave the client values or meta.
	ctx atomic.Pointer[life.Context]
	// request opened the connection; nil once the client has connected.
	request *request
	lane    lane.Lane
	// userSlot is the place in the loop's list of the user's clients.
	userSlot int32

	id         uuid.UUID
	remoteAddr string

	// prev and next link the loop's connections.
	prev, next *Client
}

// request is the HTTP request that opened a connection.
type request struct {
	ctx    context.Context
	header func() http.Header
}

// ID of the client: a random UUID.
func (c *Client) ID() string { return c.id.String() }

// UserID of the client; empty for anonymous ones.
func (c *Client) UserID() string { return c.session.User() }

// RemoteAddr of the peer.
func (c *Client) RemoteAddr() string { return c.remoteAddr }

// Session of the client. It belongs to the loop, but for what is constant: User and Via.
func (c *Client) Session() *session.Session { return &c.session }

// Header makes the header of the HTTP request. It is nil once the client has connected.
func (c *Client) Header() func() http.Header {
	if c.request == nil {
		return nil
	}
	return c.request.header
}

// Context ends with the connection; it has the values that the application gave it.
func (c *Client) Context() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx
	}
	return &c.life
}

// Meta is what the application gave the client last; nil if there is none.
func (c *Client) Meta() []byte {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Meta
	}
	return nil
}

// work is the context of handlers, and of what they lead to.
func (c *Client) work() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Work()
	}
	return c.loop.clients.handling
}

// Post has f called on the client's loop.
func (c *Client) Post(f func()) { c.loop.Post(&ingress.Call{Session: &c.session, F: f}) }

// Call has f called on the client's loop and waits for it. It fails with the error of ctx,
// and with DisconnectShutdown if the loop has ended.
func (c *Client) Call(ctx context.Context, f func()) error {
	if !c.loop.call(ctx, f) {
		return cmp.Or[error](ctx.Err(), protocol.DisconnectShutdown)
	}
	return nil
}

// Subscribe makes a server-side subscription. It is called on the loop.
func (c *Client) Subscribe(ch string, o *channel.SubscribeOptions) {
	if err := c.session.Subscribe(ch, o); err != nil {
		c.loop.clients.Log.Warn("server-side subscription refused", "channel", ch, "client", c.ID(), "error", err)
	}
}

// env is the client as its session sees it: a session.Env. It is used on the loop.
type env Client

func (e *env) client() *Client { return (*Client)(e) }

func (e *env) ID() string               { return e.id.String() }
func (e *env) Now() int64               { return e.loop.Now() }
func (e *env) Phase(n int64) int64      { return e.loop.Phase(n) }
func (e *env) Schedule(at int64)        { e.loop.Schedule(e, at) }
func (e *env) Dirty()                   { e.loop.Dirty(&e.session) }
func (e *env) Pool() *outbox.Pool       { return e.loop.Pool() }
func (e *env) Timer() *loop.Timer       { return &e.timer }
func (e *env) Do(f session.Effect) bool { return e.lane.Do(&e.loop.lanes, (*executor)(e), f) }
func (e *env) Unregister()              { e.loop.unregister(e.client()) }
func (e *env) SessionID() string        { return e.loop.sessions.ids[e.client()].String() }
func (e *env) Allowance() *int          { return e.loop.Allowance() }
func (e *env) Again()                   { e.loop.Again(&e.session) }
func (e *env) Gone()                    { e.life.End() }

func (e *env) Register() bool {
	if e.loop.register(e.client()) {
		return true
	}
	e.Refused(observe.LimitConnections, "")
	return false
}

func (e *env) Closed(d protocol.Disconnect) {
	if n := e.loop.counts; n != nil {
		n.Closed(&e.session, d)
	}
	e.life.End()
	e.loop.removeConnection(e.client())
	if log := e.loop.clients.Log; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("client disconnected", "client", e.id, "user", e.session.User(), "code", d.Code, "reason", d.Reason)
	}
}

// Tick is called when the session's deadline has passed. That is rare enough to look
// after the lane as well.
func (e *env) Tick() {
	e.session.Tick()
	e.lane.Rest()
}

func (e *env) Join(b *session.Subscription) {
	h := e.loop.Hub()
	h.Add(b.Channel(), b)
	h.SetWindow(b, b.Window())
	if n := e.loop.counts; n != nil {
		n.Subscribed()
	}
}

func (e *env) Part(b *session.Subscription) {
	if n := e.loop.counts; n != nil && b.Seat().Channel() != "" {
		n.Unsubscribed()
	}
	e.loop.Hub().Remove(b)
}

func (e *env) Finish(b *session.Subscription) { e.loop.Hub().Finish(b) }

// peer is the client as a transport with goroutines of its own sees it.
func (c *Client) peer() transport.Peer {
	p := ingress.New()
	p.Loop, p.Session, p.Gone = c.loop.Loop, &c.session, c.life.Done
	p.Ended = (*direct)(c).Closed
	return p
}

// direct is the client as a transport sees it that lives on the client's loop. The loop
// knows which client it serves, in case of a panic.
type direct Client

func (p *direct) Receive(msg []byte) {
	p.loop.entered = (*Client)(p)
	p.session.Receive(msg)
	p.loop.entered = nil
}

func (p *direct) Writable() {
	p.loop.entered = (*Client)(p)
	p.session.Flush()
	p.loop.entered = nil
}

func (p *direct) Closed(err error) {
	p.loop.clients.connections.Done()
	p.loop.entered = (*Client)(p)
	p.session.Lost((*Client)(p).closeReason(err))
	p.loop.entered = nil
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

var (
	_ session.Env    = (*env)(nil)
	_ transport.Peer = (*direct)(nil)
)
