package gyro

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/internal/ingress"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/outbox"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Client is one connection. Its methods may be called from any goroutine,
// handlers included; they take effect in the order of their calls, and do
// nothing once the connection has ended.
type Client struct {
	shard   *shard
	session session.Session
	timer   loop.Timer
	life    life.Life
	// ctx is what handlers get, if the application gave the client values or meta.
	ctx atomic.Pointer[life.Context]
	// opening is what is known of the request, until the client has connected.
	opening *opening
	lane    lane.Lane
	// userSlot is the place in the shard's list of the user's clients.
	userSlot int32

	id         uuid.UUID
	remoteAddr string

	// prev and next link the shard's connections.
	prev, next *Client
}

// opening is the request that opened a connection.
type opening struct {
	ctx    context.Context
	header func() http.Header
}

// node of the client.
func (c *Client) node() *Node { return c.shard.node }

// ID of the client: a random UUID.
func (c *Client) ID() string { return c.id.String() }

// UserID of the client; empty for anonymous ones.
func (c *Client) UserID() string { return c.session.User() }

// Transport by which the client came.
func (c *Client) Transport() TransportInfo {
	v := c.session.Via()
	return TransportInfo{Name: v.Name, Encoding: v.Framer.Encoding(), RemoteAddr: c.remoteAddr}
}

// Context ends with the connection; it holds what ConnectReply.Context held. What the
// client sent before is handled nevertheless: see Handlers.
func (c *Client) Context() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx
	}
	return &c.life
}

// Meta of the client: that of its Credentials, or of the last refresh that brought some;
// nil if there is none. It must not be modified.
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
	return c.node().handling
}

// Send pushes a message to the client. data is JSON for JSON clients, and must
// not be modified afterwards.
func (c *Client) Send(data []byte) {
	c.post(func() { c.session.Send(data) })
}

// Subscribe makes a server-side subscription. One that the client already has is
// replaced.
func (c *Client) Subscribe(ch string, opts SubscribeOptions) {
	c.post(func() {
		if err := c.session.Subscribe(ch, &opts); err != nil {
			c.node().log.Warn("server-side subscription refused", "channel", ch, "client", c.ID(), "error", err)
		}
	})
}

// Unsubscribe ends a subscription of either kind with code 2000.
func (c *Client) Unsubscribe(ch string) {
	c.post(func() { c.session.Unsubscribe(ch, protocol.UnsubscribeServer) })
}

// Disconnect closes the connection.
func (c *Client) Disconnect(d protocol.Disconnect) {
	c.post(func() { c.session.Dismiss(d) })
}

func (c *Client) post(f func()) { c.shard.loop.Post(&ingress.Call{Session: &c.session, F: f}) }

// The methods below are the session's environment; they run on the loop.

type env Client

func (e *env) client() *Client { return (*Client)(e) }

func (e *env) ID() string               { return e.id.String() }
func (e *env) Now() int64               { return e.shard.loop.Now() }
func (e *env) Phase(n int64) int64      { return e.shard.loop.Phase(n) }
func (e *env) Schedule(at int64)        { e.shard.loop.Schedule(e, at) }
func (e *env) Dirty()                   { e.shard.loop.Dirty(&e.session) }
func (e *env) Pool() *outbox.Pool       { return e.shard.loop.Pool() }
func (e *env) Timer() *loop.Timer       { return &e.timer }
func (e *env) Do(f session.Effect) bool { return e.lane.Do(&e.shard.lanes, (*executor)(e), f) }
func (e *env) Register() bool           { return e.shard.register(e.client()) }
func (e *env) Unregister()              { e.shard.unregister(e.client()) }
func (e *env) Refused(ch string) {
	n := e.shard.node
	n.log.Info("channel refused: its name is too long", "client", e.id, "channel", ch[:n.cfg.ChannelMaxLength],
		"length", len(ch), "limit", n.cfg.ChannelMaxLength)
}
func (e *env) Allowance() *int { return e.shard.loop.Allowance() }
func (e *env) Again()          { e.shard.loop.Again(&e.session) }
func (e *env) Gone()           { e.life.End() }
func (e *env) Closed(d protocol.Disconnect) {
	e.life.End()
	e.shard.unlink(e.client())
	level, reason := slog.LevelDebug, d.Reason
	if d.Code == protocol.DisconnectSlow.Code {
		level, reason = slog.LevelInfo, "more was to be sent than QueueMaxSize (client.queue_max_size) lets wait"
	}
	if log := e.shard.node.log; log.Enabled(context.Background(), level) {
		log.Log(context.Background(), level, "client disconnected", "client", e.id, "user", e.session.User(), "code", d.Code, "reason", reason)
	}
}

// Tick is called when the session's deadline has passed, so now and then.
func (e *env) Tick() {
	e.session.Tick()
	e.lane.Rest()
}

func (e *env) Join(b *session.Subscription) {
	h := e.shard.loop.Hub()
	h.Add(b.Channel(), b)
	h.SetWindow(b, b.Window())
}
func (e *env) Part(b *session.Subscription)   { e.shard.loop.Hub().Remove(b) }
func (e *env) Finish(b *session.Subscription) { e.shard.loop.Hub().Finish(b) }

// peer is the transport's view of a client whose transport has goroutines of its own.
func (c *Client) peer() transport.Peer {
	p := ingress.New()
	p.Loop, p.Session, p.Gone = c.shard.loop, &c.session, c.life.Done
	p.Ended = (*direct)(c).Closed
	return p
}

// direct is the view of a transport that lives on the client's loop. The shard knows
// which client it serves, in case of a panic.
type direct Client

func (p *direct) Receive(msg []byte) {
	p.shard.entered = (*Client)(p)
	p.session.Receive(msg)
	p.shard.entered = nil
}

func (p *direct) Writable() {
	p.shard.entered = (*Client)(p)
	p.session.Flush()
	p.shard.entered = nil
}

func (p *direct) Closed(err error) {
	p.shard.node.clients.Done()
	p.shard.entered = (*Client)(p)
	p.session.Lost((*Client)(p).closeReason(err))
	p.shard.entered = nil
}

var _ transport.Peer = (*direct)(nil)

// SubscriptionInfo describes one subscription of a client.
type SubscriptionInfo struct {
	// ServerSide subscriptions were made by the server.
	ServerSide bool
	// Source as given in SubscribeOptions.
	Source uint8
}

// Subscriptions returns the established subscriptions by channel. It waits for
// the client's loop, so it sees the effect of every earlier call; it is nil once
// the node or ctx has ended.
func (c *Client) Subscriptions(ctx context.Context) map[string]SubscriptionInfo {
	var subs map[string]SubscriptionInfo
	done := make(chan struct{})
	posted := c.shard.loop.Post(loop.Func(func() {
		defer close(done)
		subs = make(map[string]SubscriptionInfo)
		c.session.Subscriptions(func(ch string, serverSide bool, source uint8) {
			subs[ch] = SubscriptionInfo{ServerSide: serverSide, Source: source}
		})
	}))
	if !posted {
		return nil
	}
	select {
	case <-done:
		return subs
	case <-ctx.Done():
		return nil
	}
}
