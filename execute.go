package gyro

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

// executor is the client as its lane sees it: a lane.Client.
type executor Client

func (x *executor) client() *Client           { return (*Client)(x) }
func (x *executor) Session() *session.Session { return &x.session }

func (x *executor) Connecting(e *session.Connecting, inline bool) bool {
	if cfg := &x.shard.node.cfg; inline && cfg.Handlers.Connecting != nil && !cfg.InlineHandlers {
		return false
	}
	e.Err = x.client().connecting(e, inline)
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (x *executor) Connected(inline bool) bool {
	h := x.shard.node.cfg.Handlers.Connected
	if h != nil && inline {
		return false
	}
	c := x.client()
	c.notify("Connected", h != nil, func() { h(c.work(), c) })
	return true
}

func (x *executor) Subscribing(e *session.Subscribing, inline bool) bool {
	if inline && !x.shard.node.cfg.InlineHandlers {
		return false
	}
	c := x.client()
	e.Err = c.subscribing(c.work(), e, inline)
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (x *executor) Attach(e *session.Attach, inline bool) bool {
	engines := x.shard.node.engines
	if inline && !engines.Local {
		return false
	}
	ctx := context.Context(&x.life)
	if e.Outlives {
		ctx = x.client().work()
	}
	engines.Attach(ctx, (*owner)(x), e.Items)
	return true
}

func (x *executor) Detach(items []session.DetachItem, inline bool) (bool, error) {
	if inline && !x.client().silent(items) {
		return false, nil
	}
	return true, x.client().detach(items)
}

func (x *executor) Renew(items []session.RenewItem, inline bool) bool {
	if inline && !x.shard.node.engines.Local {
		return false
	}
	x.client().renew(items)
	return true
}

func (x *executor) Close(e *session.Close, inline bool) bool {
	h := x.shard.node.cfg.Handlers.Disconnected
	if inline && (h != nil && e.Connected || !x.client().silent(e.Items)) {
		return false
	}
	c := x.client()
	_ = c.detach(e.Items) // logged there; nobody waits for an answer
	c.notify("Disconnected", h != nil && e.Connected, func() {
		h(c.work(), c, DisconnectEvent{Disconnect: e.Disconnect})
	})
	return true
}

// silent tells whether the ends of subscriptions are nobody's business but the
// broker's, which is in this process.
func (c *Client) silent(items []session.DetachItem) bool {
	n := c.node()
	return n.engines.Local && n.cfg.Handlers.Unsubscribed == nil &&
		!slices.ContainsFunc(items, func(it session.DetachItem) bool { return it.Leave }) // which is published
}

func (x *executor) Join(e *session.Join) {
	c := x.client()
	if err := c.node().broker.PublishJoin(c.work(), e.Channel, e.Info); err != nil {
		c.logError("publish join", e.Channel, err)
	}
}

func (x *executor) Publish(e *session.Publish) {
	e.Err = x.client().guard("Publish", func(ctx context.Context, c *Client) error { return c.publishing(ctx, e) })
}

func (x *executor) Presence(e *session.Presence) {
	e.Err = x.client().guard("Presence", func(ctx context.Context, c *Client) error { return c.presence(ctx, e) })
}

func (x *executor) PresenceStats(e *session.PresenceStats) {
	e.Err = x.client().guard("PresenceStats", func(ctx context.Context, c *Client) error { return c.presenceStats(ctx, e) })
}

func (x *executor) History(e *session.History) {
	e.Err = x.client().guard("History", func(ctx context.Context, c *Client) error { return c.history(ctx, e) })
}

func (x *executor) RPC(e *session.RPC) {
	e.Err = x.client().guard("RPC", func(ctx context.Context, c *Client) (err error) {
		e.Data, err = c.node().cfg.Handlers.RPC(ctx, c, RPCEvent{Method: e.Request.Method, Data: e.Request.Data})
		return err
	})
}

func (x *executor) Message(e *session.Message) {
	e.Err = x.client().guard("Message", func(ctx context.Context, c *Client) error {
		return c.node().cfg.Handlers.Message(ctx, c, e.Data)
	})
}

func (x *executor) Refresh(e *session.Refresh) {
	e.Err = x.client().guard("Refresh", func(ctx context.Context, c *Client) error { return c.refreshing(ctx, e) })
}

func (x *executor) SubRefresh(e *session.SubRefresh) {
	e.Err = x.client().guard("SubRefresh", func(ctx context.Context, c *Client) error { return c.subRefreshing(ctx, e) })
}

// guard calls a handler.
func (c *Client) guard(name string, f func(ctx context.Context, c *Client) error) (err error) {
	defer c.contain(name, &err)
	return f(c.work(), c)
}

// contain is deferred around handlers. A panic becomes an error: other clients, and
// the process, are not to suffer from it.
func (c *Client) contain(name string, err *error) {
	if r := recover(); r != nil {
		c.node().panics.Add(1)
		c.node().log.Error("handler panicked", "handler", name, "client", c.ID(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = protocol.ErrorInternal
		return
	}
	if *err != nil {
		c.handlerFailed(name, *err)
	}
}

// handlerFailed logs an error that is not an answer.
func (c *Client) handlerFailed(name string, err error) {
	var (
		e *protocol.Error
		d protocol.Disconnect
	)
	if !errors.As(err, &e) && !errors.As(err, &d) && !errors.Is(err, ErrWouldBlock) && !c.hasGone(err) {
		c.node().log.Error("handler failed", "handler", name, "client", c.ID(), "error", err)
	}
}

// hasGone tells whether err is but the consequence of the client's going.
func (c *Client) hasGone(err error) bool {
	return c.life.Err() != nil && errors.Is(err, context.Canceled)
}

func (c *Client) notify(name string, handled bool, f func()) {
	if handled {
		_ = c.guard(name, func(context.Context, *Client) error { f(); return nil })
	}
}

// logError logs a failure of the broker, unless it is that the client has gone.
func (c *Client) logError(what, ch string, err error) {
	if c.hasGone(err) {
		return
	}
	c.node().log.Error(what+" failed", "channel", ch, "client", c.ID(), "error", err)
}

func (c *Client) connecting(e *session.Connecting, inline bool) (err error) {
	defer c.contain("Connecting", &err)
	request := c.opening.ctx
	var reply ConnectReply
	if h := c.node().cfg.Handlers.Connecting; h != nil {
		ctx := request
		if !inline {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(request)
			defer cancel()
			defer context.AfterFunc(&c.life, cancel)()
		}
		info := c.Transport()
		info.header = c.opening.header
		reply, err = h(ctx, ConnectEvent{
			ClientID: c.ID(), Inline: inline, Token: e.Request.Token, Data: e.Request.Data, Name: e.Request.Name,
			Version: e.Request.Version, Headers: e.Request.Headers, Subs: e.Request.Subs, Transport: info,
		})
		if err != nil {
			return err
		}
	}
	if reply.Credentials == nil {
		reply.Credentials, _ = request.Value(credentialsKey{}).(*Credentials)
	}
	// The request is of no more use, and large.
	c.opening = nil
	var meta []byte
	if reply.Credentials != nil {
		meta = reply.Credentials.Meta
	}
	if reply.Context != nil || meta != nil {
		c.ctx.Store(life.NewContext(&c.life, c.node().handling, reply.Context, meta))
	}
	e.Identity = session.Identity{
		Data: reply.Data, ClientRefresh: reply.ClientSideRefresh, Subs: reply.Subscriptions,
	}
	if who := reply.Credentials; who != nil {
		e.Identity.Known = true
		e.Identity.User, e.Identity.Info, e.Identity.ExpireAt = who.UserID, who.Info, who.ExpireAt
	}
	return nil
}

func (c *Client) subscribing(ctx context.Context, e *session.Subscribing, inline bool) (err error) {
	defer c.contain("Subscribe", &err)
	r := e.Request
	reply, err := c.node().cfg.Handlers.Subscribe(ctx, c, SubscribeEvent{
		Channel: r.Channel, Inline: inline, Token: r.Token, Data: r.Data,
		Positioned: r.Positioned, Recoverable: r.Recoverable, JoinLeave: r.JoinLeave, Type: r.Type,
	})
	e.Options, e.ClientRefresh = reply.Options, reply.ClientSideRefresh
	return err
}

// owner is the client as the engines' subscriptions see it: an attach.Owner.
type owner Client

func (o *owner) ID() string                        { return o.id.String() }
func (o *owner) Loop() int                         { return o.shard.index }
func (o *owner) Failed(what, ch string, err error) { (*Client)(o).logError(what, ch, err) }

func (c *Client) detach(items []session.DetachItem) error {
	var errs []error
	for i := range items {
		it := &items[i]
		if err := c.node().engines.Detach((*owner)(c), it); err != nil {
			c.logError("unsubscribe", it.Channel, err)
			errs = append(errs, err)
		}
		h := c.node().cfg.Handlers.Unsubscribed
		c.notify("Unsubscribed", h != nil, func() {
			h(c.work(), c, UnsubscribeEvent{Channel: it.Channel, Reason: it.Reason, ServerSide: it.ServerSide})
		})
	}
	return errors.Join(errs...)
}

func (c *Client) publishing(ctx context.Context, e *session.Publish) error {
	ch := e.Request.Channel
	reply, err := c.node().cfg.Handlers.Publish(ctx, c, PublishEvent{
		Channel: ch, Data: e.Request.Data, Info: e.Info, Subscribed: e.Subscribed,
	})
	if err != nil || reply.Published {
		return err
	}
	data := e.Request.Data
	if reply.Data != nil {
		data = reply.Data
	}
	if reply.Options.Info == nil {
		reply.Options.Info = e.Info
	}
	_, err = c.node().publish(ctx, ch, data, &reply.Options)
	return err
}

func (c *Client) presence(ctx context.Context, e *session.Presence) error {
	err := c.node().cfg.Handlers.Presence(ctx, c, PresenceEvent{Channel: e.Channel, Subscribed: e.Subscribed})
	if err == nil {
		e.Clients, err = c.node().presence.Presence(&c.life, e.Channel)
	}
	return err
}

func (c *Client) presenceStats(ctx context.Context, e *session.PresenceStats) error {
	err := c.node().cfg.Handlers.PresenceStats(ctx, c, PresenceEvent{Channel: e.Channel, Subscribed: e.Subscribed})
	if err != nil {
		return err
	}
	stats, err := c.node().presence.Stats(&c.life, e.Channel)
	e.NumClients, e.NumUsers = stats.Clients, stats.Users
	return err
}

func (c *Client) history(ctx context.Context, e *session.History) error {
	err := c.node().cfg.Handlers.History(ctx, c, HistoryEvent{
		Channel: e.Channel, Subscribed: e.Subscribed, Limit: e.Limit, Since: e.Since, Reverse: e.Reverse,
	})
	if err != nil {
		return err
	}
	h, err := c.node().history(&c.life, e.Channel, broker.HistoryFilter{Since: e.Since, Limit: e.Limit, Reverse: e.Reverse})
	e.Publications, e.Top = h.Publications, h.Top
	return err
}

func (c *Client) refreshing(ctx context.Context, e *session.Refresh) error {
	reply, err := c.node().cfg.Handlers.Refresh(ctx, c, RefreshEvent{ClientSide: e.ClientSide, Token: e.Token})
	e.Expired, e.ExpireAt, e.Info = reply.Expired, reply.ExpireAt, reply.Info
	if err == nil && !reply.Expired && reply.Meta != nil {
		c.ctx.Store(c.ctx.Load().WithMeta(&c.life, c.node().handling, reply.Meta))
	}
	return err
}

func (c *Client) subRefreshing(ctx context.Context, e *session.SubRefresh) error {
	reply, err := c.node().cfg.Handlers.SubRefresh(ctx, c, SubRefreshEvent{
		Channel: e.Channel, ClientSide: e.ClientSide, Token: e.Token,
	})
	e.Expired, e.ExpireAt, e.Info, e.ServerTagsFilter = reply.Expired, reply.ExpireAt, reply.Info, reply.ServerTagsFilter
	return err
}

func (c *Client) renew(items []session.RenewItem) {
	for _, it := range items {
		if err := c.node().presence.Add(&c.life, it.Channel, it.Info); err != nil {
			c.logError("renewing presence", it.Channel, err)
		}
	}
}

var _ lane.Client = (*executor)(nil)
