// Package client connects sessions with their loops, the application and the engines, and knows all clients of the node.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

// Client is one connection. Any goroutine may call its methods, unless they say otherwise.
type Client struct {
	loop     *Loop
	session  session.Session
	timer    loop.Timer
	lifetime lifetime
	// ctx has the values of the application, and its meta and capabilities of the client; nil if it gave none of them.
	ctx atomic.Pointer[valueContext]
	// request is nil once the client has connected.
	request *request
	effects workQueue
	// connectedAt in Unix milliseconds.
	connectedAt int64
	// userSlot is the index in Loop.users.
	userSlot int32
	// agent is the number in Loop.agents.
	agent uint16
	// latency of the last pong in milliseconds, or noLatency.
	latency uint16

	id         uuid.UUID
	remoteAddr string

	prev, next *Client
}

// request is the HTTP request that opened a connection.
type request struct {
	ctx      context.Context
	header   func() http.Header
	repeated func(channel string) bool
}

// ID of the client: a random UUID.
func (c *Client) ID() string { return c.id.String() }

// UserID of the client; empty for anonymous ones.
func (c *Client) UserID() string { return c.session.User() }

// RemoteAddr of the peer.
func (c *Client) RemoteAddr() string { return c.remoteAddr }

// Session is used on the loop only, except User and Via, which are constant.
func (c *Client) Session() *session.Session { return &c.session }

// Request is the context of the HTTP request, for Application.Connecting only.
func (c *Client) Request() context.Context { return c.request.ctx }

// Application of the node.
func (c *Client) Application() Application { return c.loop.clients.Application }

// Header makes the header of the HTTP request; nil once the client has connected.
func (c *Client) Header() func() http.Header {
	if c.request == nil {
		return nil
	}
	return c.request.header
}

// Repeated is transport.Info.Repeated, for Application.Connecting only.
func (c *Client) Repeated() func(channel string) bool { return c.request.repeated }

// Context ends with the connection, and has the values of the application.
func (c *Client) Context() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx
	}
	return &c.lifetime
}

// Known is the latest of the application.
func (c *Client) Known() Known {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Known
	}
	return Known{}
}

// work is the context of handlers, and of engine calls that outlive the client.
func (c *Client) work() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Work()
	}
	return c.loop.clients.handling
}

// parting is the context of Unsubscribed and Disconnected, with at least 5 s left, however late in a shutdown. The
// caller calls done after the handler.
func (c *Client) parting() (parting context.Context, done context.CancelFunc) {
	parting, done = c.loop.clients.parting, func() {}
	if c.loop.clients.handling.Err() != nil {
		parting, done = context.WithTimeout(context.Background(), patience)
	}
	if ctx := c.ctx.Load(); ctx != nil {
		parting = ctx.Until(parting)
	}
	return parting, done
}

// ReadJSON reports whether data of the client is known to be JSON without line breaks: a JSON connection has read it as
// a part of a line.
func (c *Client) ReadJSON(data []byte) bool {
	return c.session.Via().Framer.Encoding() == protocol.JSON && len(data) > 0 && bytes.IndexByte(data, '\r') < 0
}

// Post calls f later on the client's loop.
func (c *Client) Post(f func()) { c.loop.Post(&sessionCall{Session: &c.session, F: f}) }

// Call calls f on the client's loop and waits. The error is of ctx, or DisconnectShutdown if the loop has ended.
func (c *Client) Call(ctx context.Context, f func()) error {
	if !c.loop.call(ctx, f) {
		return cmp.Or[error](ctx.Err(), protocol.DisconnectShutdown)
	}
	return nil
}

// Subscribe makes a server-side subscription, on the loop.
func (c *Client) Subscribe(ch string, o *channel.SubscribeOptions) {
	if err := c.session.ServerSubscribe(ch, o); err != nil {
		c.report("server-side subscription refused", ch, err)
	}
}

// env implements session.Env, on the loop.
type env Client

func (e *env) client() *Client { return (*Client)(e) }

func (e *env) ID() string                     { return e.id.String() }
func (e *env) Now() int64                     { return e.loop.Now() }
func (e *env) Wall() int64                    { return e.loop.Wall() }
func (e *env) Phase(n int64) int64            { return e.loop.Phase(n) }
func (e *env) Schedule(at int64)              { e.loop.Schedule(e, at) }
func (e *env) Dirty()                         { e.loop.Dirty(&e.session) }
func (e *env) Pool() *sendqueue.Pool          { return e.loop.Pool() }
func (e *env) Scratch() *session.Scratch      { return &e.loop.scratch }
func (e *env) Timer() *loop.Timer             { return &e.timer }
func (e *env) Do(f effect.Effect) bool        { return e.effects.Do(&e.loop.work, (*executor)(e), f) }
func (e *env) Hold(on bool)                   { e.effects.Hold(on) }
func (e *env) Unregister()                    { e.loop.unregister(e.client()) }
func (e *env) SessionID() string              { return e.loop.sessions.ids[e.client()].String() }
func (e *env) Allowance() *int                { return e.loop.Allowance() }
func (e *env) Counts() *clientmetrics.Counter { return e.loop.counts }
func (e *env) Again()                         { e.loop.Again(&e.session) }
func (e *env) Gone()                          { e.lifetime.End() }

func (e *env) Register(req *protocol.ConnectRequest) bool {
	if e.loop.register(e.client()) {
		e.agent, e.latency = e.loop.agents.add(req.Name, req.Version), noLatency
		e.connectedAt = e.loop.Wall() / int64(time.Millisecond)
		return true
	}
	e.Refused(observe.LimitConnections, "")
	return false
}

func (e *env) Closed(d protocol.Disconnect) {
	e.loop.clients.Session.Taps.Closed(e, &e.session, d)
	if e.loop.removeConnection(e.client()) {
		e.loop.counts.Closed(&e.session, d)
		if _, connected := e.session.Agent(); connected {
			e.Note(inspect.Disconnected, "", d.Code, 0, d.Reason)
		}
	}
	e.lifetime.End()
	if log := e.loop.clients.Log; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("client disconnected", "client", e.id, "user", e.session.User(), "code", d.Code, "reason", d.Reason)
	}
}

// Tick also frees the memory of an idle work queue, as it is called now and then for every client.
func (e *env) Tick() {
	e.session.Tick()
	e.effects.Rest()
}

func (e *env) Join(b *session.Subscription) {
	h := e.loop.Hub()
	h.Add(b.Channel(), b)
	h.SetWindow(b, b.Window())
}

func (e *env) Part(b *session.Subscription)   { e.loop.Hub().Remove(b) }
func (e *env) Finish(b *session.Subscription) { e.loop.Hub().Finish(b) }

// peer is for a transport with goroutines of its own.
func (c *Client) peer() transport.Peer {
	p := newPostingPeer()
	p.Loop, p.Session, p.Gone = c.loop.Loop, &c.session, c.lifetime.Done
	p.Ended = (*loopPeer)(c).Closed
	return p
}

// loopPeer implements transport.Peer for a connection on the client's loop. It sets Loop.entered, so that a panic ends
// this client.
type loopPeer Client

func (p *loopPeer) Receive(msg []byte) {
	p.loop.entered = (*Client)(p)
	p.session.Receive(msg)
	p.loop.entered = nil
}

func (p *loopPeer) Writable() {
	p.loop.entered = (*Client)(p)
	p.session.Flush()
	p.loop.entered = nil
}

func (p *loopPeer) Closed(err error) {
	p.loop.clients.connections.Done()
	p.loop.entered = (*Client)(p)
	p.session.Lost((*Client)(p).closeReason(err))
	p.loop.entered = nil
}

// closeReason returns the disconnect for the error of a transport. It logs a panic, and a message that the transport
// refused.
func (c *Client) closeReason(err error) protocol.Disconnect {
	d, told := errors.AsType[protocol.Disconnect](err) // mostly, and then nothing is allocated
	if why, ok := err.(*refusal.Reason); ok {          //nolint:errorlint // transports wrap nothing around it
		if !told {
			d = protocol.Disconnect{Code: protocol.DisconnectConnectionClosed.Code, Reason: why.Text}
		}
		c.unread(d.Code, why)
		return d
	}
	if told {
		return d
	}
	if p, ok := errors.AsType[*transport.Panic](err); ok {
		c.panicked(p.Reason, p.Stack)
		return protocol.DisconnectServerError
	}
	return protocol.DisconnectConnectionClosed
}
