package gyro

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

// do does an effect at once if it cannot block and nothing is before it, and
// reports true; or else starts it on the client's lane.
func (c *Client) do(e session.Effect) bool {
	ahead := c.continues(e)
	if c.instant(e) && (ahead || c.awaited == 0 && c.lane.Idle()) && c.try(e) {
		return true
	}
	if c.lane == nil {
		c.lane = new(lane.Lane)
	}
	if lane.Completes(e) {
		c.awaited++
	}
	switch n := c.node(); {
	case ahead:
		c.lane.PushAhead(e)
	case c.lane.Push(e, n.cfg.Concurrency):
		c.lane.Work((*worker)(c), n.cfg.Concurrency, &n.work)
	}
	return false
}

// continues tells whether e goes on with what the effect that is being completed
// began, and so comes before the commands that arrived meanwhile: a subscription
// is established, or undone because the client has gone.
func (c *Client) continues(e session.Effect) bool {
	if c.shard.completing.c != c {
		return false
	}
	switch c.shard.completing.e.(type) {
	case *session.Connecting, *session.Subscribing:
		_, ok := e.(*session.Attach)
		return ok
	case *session.Attach:
		return c.session.Ended()
	}
	return false
}

// instant tells whether e does not block, so that the loop may do it: it calls no
// handler that might, and nothing of a broker that is not in this process.
func (c *Client) instant(e session.Effect) bool {
	n := c.node()
	h := &n.cfg.Handlers
	switch e := e.(type) {
	case *session.Connecting:
		return h.Connecting == nil || n.cfg.InlineHandlers
	case *session.Connected:
		return h.Connected == nil
	case *session.Subscribing:
		return n.cfg.InlineHandlers
	case *session.Attach, *session.Renew:
		return n.engines.Local
	case *session.Detach:
		return c.silent(e.Items)
	case *session.Close:
		return c.silent(e.Items) && (h.Disconnected == nil || !e.Connected)
	}
	return false
}

// silent tells whether the ends of subscriptions are nobody's business but the
// broker's, which is in this process.
func (c *Client) silent(items []session.DetachItem) bool {
	n := c.node()
	if !n.engines.Local || n.cfg.Handlers.Unsubscribed != nil {
		return false
	}
	for i := range items {
		if items[i].Leave { // is published
			return false
		}
	}
	return true
}

// try does an effect on the loop, unless it turns out that it would block.
func (c *Client) try(e session.Effect) bool {
	c.execute(e, true)
	switch e := e.(type) {
	case *session.Connecting:
		return !errors.Is(e.Err, ErrWouldBlock)
	case *session.Subscribing:
		return !errors.Is(e.Err, ErrWouldBlock)
	}
	return true
}

// worker is the client as its lane sees it: a lane.Host.
type worker Client

func (w *worker) Execute(e session.Effect) { (*Client)(w).execute(e, false) }
func (w *worker) Executed(e session.Effect, done chan struct{}) bool {
	return w.shard.loop.Post(&completion{(*Client)(w), e, done})
}

// completion takes an effect back to its session.
type completion struct {
	c    *Client
	e    session.Effect
	done chan struct{} // closed afterwards, unless nil
}

// Run completes the effect.
func (d *completion) Run() {
	d.c.shard.completing = *d
	d.c.awaited--
	d.c.session.Complete(d.e)
	d.c.shard.completing = completion{}
	if d.done != nil {
		close(d.done)
	}
}

// execute does an effect. It blocks for as long as the handler and the broker do:
// inline, that is on the loop, not at all.
func (c *Client) execute(e session.Effect, inline bool) {
	ctx := c.work()
	switch e := e.(type) {
	case *session.Connecting:
		e.Err = c.connecting(e, inline)
	case *session.Connected:
		c.notify("Connected", c.node().cfg.Handlers.Connected != nil, func() { c.node().cfg.Handlers.Connected(ctx, c) })
	case *session.Subscribing:
		e.Err = c.subscribing(ctx, e, inline)
	case *session.Attach:
		if !e.Outlives {
			ctx = &c.life
		}
		c.node().engines.Attach(ctx, (*owner)(c), e.Items)
	case *session.Detach:
		e.Err = c.detach(e.Items)
	case *session.Join:
		if err := c.node().broker.PublishJoin(ctx, e.Channel, e.Info); err != nil {
			c.logError("publish join", e.Channel, err)
		}
	case *session.Publish:
		e.Err = c.guard("Publish", func() error { return c.publishing(ctx, e) })
	case *session.Presence:
		e.Err = c.guard("Presence", func() error { return c.presence(ctx, e) })
	case *session.PresenceStats:
		e.Err = c.guard("PresenceStats", func() error { return c.presenceStats(ctx, e) })
	case *session.History:
		e.Err = c.guard("History", func() error { return c.history(ctx, e) })
	case *session.RPC:
		e.Err = c.guard("RPC", func() (err error) {
			e.Data, err = c.node().cfg.Handlers.RPC(ctx, c, RPCEvent{Method: e.Request.Method, Data: e.Request.Data})
			return err
		})
	case *session.Message:
		e.Err = c.guard("Message", func() error { return c.node().cfg.Handlers.Message(ctx, c, e.Data) })
	case *session.Refresh:
		e.Err = c.guard("Refresh", func() error { return c.refreshing(ctx, e) })
	case *session.SubRefresh:
		e.Err = c.guard("SubRefresh", func() error { return c.subRefreshing(ctx, e) })
	case *session.Renew:
		c.renew(e)
	case *session.Close:
		c.closing(e)
	}
}

// guard calls a handler.
func (c *Client) guard(name string, f func() error) (err error) {
	defer c.contain(name, &err)
	return f()
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
		_ = c.guard(name, func() error { f(); return nil })
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

func (c *Client) renew(e *session.Renew) {
	for _, it := range e.Items {
		if err := c.node().presence.Add(&c.life, it.Channel, it.Info); err != nil {
			c.logError("renewing presence", it.Channel, err)
		}
	}
}

func (c *Client) closing(e *session.Close) {
	_ = c.detach(e.Items) // logged there; nobody waits for an answer
	h := c.node().cfg.Handlers.Disconnected
	c.notify("Disconnected", h != nil && e.Connected, func() {
		h(c.work(), c, DisconnectEvent{Disconnect: e.Disconnect})
	})
}

var (
	_ loop.Task = (*completion)(nil)
	_ lane.Host = (*worker)(nil)
)
