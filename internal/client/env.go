package client

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/internal/ingress"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/outbox"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

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
func (e *env) Register() bool           { return e.loop.register(e.client()) }
func (e *env) Unregister()              { e.loop.unregister(e.client()) }
func (e *env) Allowance() *int          { return e.loop.Allowance() }
func (e *env) Again()                   { e.loop.Again(&e.session) }
func (e *env) Gone()                    { e.life.End() }
func (e *env) Refused(ch string) {
	limit := e.loop.clients.Session.ChannelMaxLength
	e.loop.clients.Log.Info("channel refused: its name is too long", "client", e.id, "channel", ch[:limit],
		"length", len(ch), "limit", limit)
}

func (e *env) Closed(d protocol.Disconnect) {
	e.life.End()
	e.loop.removeConnection(e.client())
	level, reason := slog.LevelDebug, d.Reason
	if d.Code == protocol.DisconnectSlow.Code {
		level, reason = slog.LevelInfo, "more was to be sent than QueueMaxSize (client.queue_max_size) lets wait"
	}
	if log := e.loop.clients.Log; log.Enabled(context.Background(), level) {
		log.Log(context.Background(), level, "client disconnected", "client", e.id, "user", e.session.User(), "code", d.Code, "reason", reason)
	}
}

// Tick is called when the session's deadline has passed, so now and then.
func (e *env) Tick() {
	e.session.Tick()
	e.lane.Rest()
}

func (e *env) Join(b *session.Subscription) {
	h := e.loop.Hub()
	h.Add(b.Channel(), b)
	h.SetWindow(b, b.Window())
}
func (e *env) Part(b *session.Subscription)   { e.loop.Hub().Remove(b) }
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
