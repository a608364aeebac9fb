package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gyrohq/gyro/internal/attach"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Application is the program that the node serves. A method is called only if it is
// among session.Config.Handles, but for Connecting, which always is. It fills in what an effect
// has to bring; an error is the effect's. What panics for a client becomes an error.
type Application interface {
	// Connecting returns the values of the client's context, and its meta, either of
	// which may be nil. ctx is that of the request.
	Connecting(ctx context.Context, c *Client, e *session.Connecting, inline bool) (values context.Context, meta []byte, err error)
	Connected(ctx context.Context, c *Client)
	Subscribe(ctx context.Context, c *Client, e *session.Subscribing, inline bool) error
	Unsubscribed(ctx context.Context, c *Client, it *session.DetachItem)
	Publish(ctx context.Context, c *Client, e *session.Publish) error
	// Presence, PresenceStats and History tell whether they have answered; if not, an
	// engine does.
	Presence(ctx context.Context, c *Client, e *session.Presence) (answered bool, err error)
	PresenceStats(ctx context.Context, c *Client, e *session.PresenceStats) (answered bool, err error)
	History(ctx context.Context, c *Client, e *session.History) (answered bool, err error)
	RPC(ctx context.Context, c *Client, e *session.RPC) error
	Message(ctx context.Context, c *Client, e *session.Message) error
	// Refresh returns new meta, unless it is nil.
	Refresh(ctx context.Context, c *Client, e *session.Refresh) (meta []byte, err error)
	SubRefresh(ctx context.Context, c *Client, e *session.SubRefresh) error
	Disconnected(ctx context.Context, c *Client, d protocol.Disconnect)
}

// ErrWouldBlock is the answer of Connecting and Subscribe that cannot be given inline.
var ErrWouldBlock = errors.New("gyro: the handler would block")

// executor is the client as its lane sees it: a lane.Client.
type executor Client

func (x *executor) client() *Client           { return (*Client)(x) }
func (x *executor) node() *Config             { return &x.loop.clients.Config }
func (x *executor) has() *session.Handles     { return &x.loop.clients.Config.Session.Handles }
func (x *executor) Session() *session.Session { return &x.session }

// Panicked implements lane.Client.
func (x *executor) Panicked(reason any, stack []byte) {
	x.client().panicked(reason, stack)
	x.client().Post(x.client().crash)
}

func (x *executor) Connecting(e *session.Connecting, inline bool) bool {
	if n := x.node(); inline && x.has().Connecting && !n.InlineHandlers {
		return false
	}
	ctx := x.request.ctx
	e.Err = x.handle(ctx, &observe.Effect{Name: "Connecting", Inline: inline}, func(ctx context.Context, c *Client, app Application) error {
		return c.connecting(ctx, app, e, inline)
	})
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (c *Client) connecting(ctx context.Context, app Application, e *session.Connecting, inline bool) error {
	if !inline {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(&c.life, cancel)()
	}
	values, meta, err := app.Connecting(ctx, c, e, inline)
	if err != nil {
		return err
	}
	c.request = nil // it is large, and nobody needs it any longer
	if values != nil || meta != nil {
		c.ctx.Store(life.NewContext(&c.life, c.loop.clients.handling, values, meta))
	}
	return nil
}

func (x *executor) Connected(inline bool) bool {
	if inline && x.has().Connected {
		return false
	}
	x.notify("Connected", "", x.has().Connected, func(ctx context.Context, c *Client, app Application) {
		app.Connected(ctx, c)
	})
	return true
}

func (x *executor) Subscribing(e *session.Subscribing, inline bool) bool {
	if inline && !x.node().InlineHandlers {
		return false
	}
	what := &observe.Effect{Name: "Subscribe", Channel: e.Request.Channel, Inline: inline}
	e.Err = x.handle(x.client().work(), what, func(ctx context.Context, c *Client, app Application) error {
		return app.Subscribe(ctx, c, e, inline)
	})
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (x *executor) Attach(e *session.Attach, inline bool) bool {
	if inline && !x.node().Engines.Local {
		return false
	}
	ctx := context.Context(&x.life)
	if e.Outlives {
		ctx = x.client().work()
	}
	what := &observe.Effect{Name: "attach", Inline: inline}
	if len(e.Items) == 1 {
		what.Channel = e.Items[0].Channel
	}
	ctx, done := x.begin(ctx, what)
	x.node().Engines.Attach(ctx, (*owner)(x), e.Items)
	i := slices.IndexFunc(e.Items, func(it *session.AttachItem) bool { return it.Err != nil })
	if i < 0 {
		done(nil)
	} else {
		done(e.Items[i].Err)
	}
	return true
}

func (x *executor) Detach(items []session.DetachItem, inline bool) (bool, error) {
	if inline && !x.silent(items) {
		return false, nil
	}
	var errs []error
	for i := range items {
		it := &items[i]
		_, done := x.begin(x.client().work(), &observe.Effect{Name: "detach", Channel: it.Channel, Inline: inline})
		err := x.node().Engines.Detach((*owner)(x), it)
		if done(err); err != nil {
			x.client().failed("unsubscribe", it.Channel, err)
			errs = append(errs, err)
		}
		x.notify("Unsubscribed", it.Channel, x.has().Unsubscribed, func(ctx context.Context, c *Client, app Application) {
			app.Unsubscribed(ctx, c, it)
		})
	}
	return true, errors.Join(errs...)
}

// silent tells whether the ends of subscriptions concern the broker alone, and the broker
// is in this process.
func (x *executor) silent(items []session.DetachItem) bool {
	n := x.node()
	return n.Engines.Local && !x.has().Unsubscribed &&
		!slices.ContainsFunc(items, func(it session.DetachItem) bool { return it.Leave }) // which is published
}

func (x *executor) Renew(items []session.RenewItem, inline bool) bool {
	if inline && !x.node().Engines.Local {
		return false
	}
	for _, it := range items {
		ctx, done := x.begin(&x.life, &observe.Effect{Name: "renew", Channel: it.Channel, Inline: inline})
		err := x.node().Engines.Presence.Add(ctx, it.Channel, it.Info)
		if done(err); err != nil {
			x.client().failed("renewing presence", it.Channel, err)
		}
	}
	return true
}

func (x *executor) Close(e *session.Close, inline bool) bool {
	tell := e.Connected && x.has().Disconnected
	if inline && tell {
		return false
	}
	if done, _ := x.Detach(e.Items, inline); !done { // errors are logged there
		return false
	}
	x.notify("Disconnected", "", tell, func(ctx context.Context, c *Client, app Application) {
		app.Disconnected(ctx, c, e.Disconnect)
	})
	return true
}

func (x *executor) Join(e *session.Join) {
	ctx, done := x.begin(x.client().work(), &observe.Effect{Name: "join", Channel: e.Channel})
	err := x.node().Engines.Broker.PublishJoin(ctx, e.Channel, e.Info)
	if done(err); err != nil {
		x.client().failed("publish join", e.Channel, err)
	}
}

func (x *executor) Publish(e *session.Publish) {
	e.Err = x.command("Publish", e.Request.Channel, func(ctx context.Context, c *Client, app Application) error { return app.Publish(ctx, c, e) })
}

func (x *executor) Presence(e *session.Presence) {
	e.Err = x.command("Presence", e.Channel, func(ctx context.Context, c *Client, app Application) error {
		answered, err := app.Presence(ctx, c, e)
		if err == nil && !answered {
			e.Clients, err = x.node().Engines.Presence.Presence(&c.life, e.Channel)
		}
		return err
	})
}

func (x *executor) PresenceStats(e *session.PresenceStats) {
	e.Err = x.command("PresenceStats", e.Channel, func(ctx context.Context, c *Client, app Application) error {
		answered, err := app.PresenceStats(ctx, c, e)
		if err == nil && !answered {
			e.PresenceStats, err = x.node().Engines.Presence.Stats(&c.life, e.Channel)
		}
		return err
	})
}

func (x *executor) History(e *session.History) {
	e.Err = x.command("History", e.Channel, func(ctx context.Context, c *Client, app Application) error {
		answered, err := app.History(ctx, c, e)
		if err == nil && !answered {
			e.History, err = x.node().Engines.History(&c.life, e.Channel, e.HistoryFilter)
		}
		return err
	})
}

func (x *executor) RPC(e *session.RPC) {
	e.Err = x.command("RPC", "", func(ctx context.Context, c *Client, app Application) error { return app.RPC(ctx, c, e) })
}

func (x *executor) Message(e *session.Message) {
	e.Err = x.command("Message", "", func(ctx context.Context, c *Client, app Application) error { return app.Message(ctx, c, e) })
}

func (x *executor) Refresh(e *session.Refresh) {
	e.Err = x.command("Refresh", "", func(ctx context.Context, c *Client, app Application) error {
		meta, err := app.Refresh(ctx, c, e)
		if err == nil && !e.Expired && meta != nil {
			c.ctx.Store(c.ctx.Load().WithMeta(&c.life, c.loop.clients.handling, meta))
		}
		return err
	})
}

func (x *executor) SubRefresh(e *session.SubRefresh) {
	e.Err = x.command("SubRefresh", e.Channel, func(ctx context.Context, c *Client, app Application) error { return app.SubRefresh(ctx, c, e) })
}

// command calls the handler of a command that always runs beside the loop.
func (x *executor) command(name, ch string, f func(ctx context.Context, c *Client, app Application) error) error {
	return x.handle(x.client().work(), &observe.Effect{Name: name, Channel: ch}, f)
}

// handle calls a handler. A panic becomes an error: other clients, and the process, are
// not to suffer from it. Errors that are no answers are logged.
func (x *executor) handle(ctx context.Context, what *observe.Effect, f func(ctx context.Context, c *Client, app Application) error) (err error) {
	c := x.client()
	done := unobserved
	defer func() {
		if r := recover(); r != nil {
			c.handlerPanicked(what.Name, r)
			err = protocol.ErrorInternal
			done(err)
		}
	}()
	ctx, done = x.begin(ctx, what)
	if err = f(ctx, c, x.node().Application); err != nil {
		c.handlerFailed(what.Name, err)
	}
	done(err)
	return err
}

// notify calls a handler that has no answer, if there is one.
func (x *executor) notify(name, ch string, handled bool, f func(ctx context.Context, c *Client, app Application)) {
	if handled {
		_ = x.command(name, ch, func(ctx context.Context, c *Client, app Application) error { f(ctx, c, app); return nil })
	}
}

// handlerPanicked logs a panic, and counts it.
func (c *Client) handlerPanicked(name string, reason any) {
	c.loop.clients.panics.Add(1)
	c.loop.clients.Log.Error("handler panicked", "handler", name, "client", c.ID(), "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))
}

// handlerFailed logs an error that is not an answer.
func (c *Client) handlerFailed(name string, err error) {
	var (
		e *protocol.Error
		d protocol.Disconnect
	)
	if !errors.As(err, &e) && !errors.As(err, &d) && !errors.Is(err, ErrWouldBlock) && !c.hasGone(err) {
		c.loop.clients.Log.Error("handler failed", "handler", name, "client", c.ID(), "error", err)
	}
}

// hasGone tells whether err is but the consequence of the client's going.
func (c *Client) hasGone(err error) bool {
	return c.life.Err() != nil && errors.Is(err, context.Canceled)
}

// failed logs a failure of an engine, unless it is that the client has gone.
func (c *Client) failed(what, ch string, err error) {
	if !c.hasGone(err) {
		c.loop.clients.Log.Error(what+" failed", "channel", ch, "client", c.ID(), "error", err)
	}
}

// owner is the client as the engines' subscriptions see it: an attach.Owner.
type owner Client

func (o *owner) ID() string                        { return o.id.String() }
func (o *owner) Loop() int                         { return o.loop.index }
func (o *owner) Failed(what, ch string, err error) { (*Client)(o).failed(what, ch, err) }
func (o *owner) Panicked(reason any, stack []byte) { (*Client)(o).panicked(reason, stack) }

var (
	_ lane.Client  = (*executor)(nil)
	_ attach.Owner = (*owner)(nil)
)
