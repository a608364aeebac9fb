package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Application is the program that the node serves. Each method calls the handler of its name and fills in the fields of
// the effect after "out", except Err, which the caller sets. Connecting is called for every client, any other method
// only if session.Config.Handles has the handler. A panic becomes protocol.ErrorInternal.
type Application interface {
	// Connecting returns the values of the client's context, or nil. ctx is of the HTTP request.
	Connecting(ctx context.Context, c *Client, e *effect.Connecting, inline bool) (values context.Context, known Known, err error)
	Connected(ctx context.Context, c *Client)
	Subscribe(ctx context.Context, c *Client, e *effect.Subscribing, inline bool) error
	Unsubscribed(ctx context.Context, c *Client, it *effect.DetachItem)
	Publish(ctx context.Context, c *Client, e *effect.Publish) error
	Presence(ctx context.Context, c *Client, e *effect.Presence) error
	PresenceStats(ctx context.Context, c *Client, e *effect.PresenceStats) error
	History(ctx context.Context, c *Client, e *effect.History) error
	RPC(ctx context.Context, c *Client, e *effect.RPC) error
	Message(ctx context.Context, c *Client, e *effect.Message) error
	// Refresh returns the new meta and capabilities of the client. A nil field changes nothing.
	Refresh(ctx context.Context, c *Client, e *effect.Refresh) (Known, error)
	SubRefresh(ctx context.Context, c *Client, e *effect.SubRefresh) error
	Disconnected(ctx context.Context, c *Client, d protocol.Disconnect)
}

// ErrWouldBlock is for Connecting and Subscribe that were called inline.
var ErrWouldBlock = errors.New("gyro: the handler would block")

// executor implements worker.
type executor Client

func (x *executor) client() *Client           { return (*Client)(x) }
func (x *executor) node() *Config             { return &x.loop.clients.Config }
func (x *executor) has() *session.Handles     { return &x.loop.clients.Config.Session.Handles }
func (x *executor) Session() *session.Session { return &x.session }

func (x *executor) Panicked(reason any, stack []byte) {
	x.client().panicked(reason, stack)
	x.client().Post(x.client().crash)
}

func (x *executor) Connecting(e *effect.Connecting, inline bool) bool {
	if n := x.node(); inline && x.has().Connecting && !n.InlineHandlers {
		return false
	}
	ctx := x.request.ctx
	e.Err = x.handle(ctx, &observe.Effect{Name: "Connecting", Inline: inline}, func(ctx context.Context, c *Client, app Application) error {
		return c.connecting(ctx, app, e, inline)
	})
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (c *Client) connecting(ctx context.Context, app Application, e *effect.Connecting, inline bool) error {
	if !inline {
		var done func()
		ctx, done = requestContext(&c.lifetime, ctx)
		defer done()
	}
	values, known, err := app.Connecting(ctx, c, e, inline)
	if err != nil {
		return err
	}
	if values != nil {
		e.Labels = inspect.Labels(values)
	}
	c.request = nil // it is large, and no longer needed
	if values != nil || known.any() {
		c.ctx.Store(newValueContext(&c.lifetime, c.loop.clients.handling, values, known))
	}
	return nil
}

func (x *executor) Connected(inline bool) bool {
	if inline && x.has().Connected {
		return false
	}
	if x.has().Connected {
		x.notify(x.client().work(), "Connected", "", func(ctx context.Context, c *Client, app Application) { app.Connected(ctx, c) })
	}
	return true
}

func (x *executor) Subscribing(e *effect.Subscribing, inline bool) bool {
	if inline && !x.node().InlineHandlers {
		return false
	}
	what := &observe.Effect{Name: "Subscribe", Channel: e.Request.Channel, Inline: inline}
	e.Err = x.handle(x.client().work(), what, func(ctx context.Context, c *Client, app Application) error {
		return app.Subscribe(ctx, c, e, inline)
	})
	return !errors.Is(e.Err, ErrWouldBlock)
}

func (x *executor) Attach(e *effect.Attach, inline bool) bool {
	ctx := context.Context(&x.lifetime)
	if e.Outlives {
		ctx = x.client().work()
	}
	if inline && !x.node().Engines.Instant(ctx, e.Items) {
		return false
	}
	what := &observe.Effect{Name: "attach", Inline: inline}
	if len(e.Items) == 1 {
		what.Channel = e.Items[0].Channel
	}
	ctx, done := x.begin(ctx, what)
	x.node().Engines.Attach(ctx, (*owner)(x), e.Items, inline)
	var err error
	for _, it := range e.Items {
		err = cmp.Or(err, it.Err)
	}
	done(err)
	return true
}

func (x *executor) Page(e *effect.Page, inline bool) bool {
	if inline && !x.node().Engines.Local {
		return false
	}
	ctx, done := x.begin(&x.lifetime, &observe.Effect{Name: "map page", Channel: e.Channel, Inline: inline})
	x.node().Engines.Page(ctx, (*owner)(x), e)
	done(e.Err)
	return true
}

func (x *executor) Detach(items []effect.DetachItem, inline bool) (bool, error) {
	if inline && !x.silent(items) {
		return false, nil
	}
	var errs []error
	for i := range items {
		it := &items[i]
		if it.Feed != nil {
			it.Feed.Close()
		}
		_, done := x.begin(x.client().work(), &observe.Effect{Name: "detach", Channel: it.Channel, Inline: inline})
		err := x.node().Engines.Detach((*owner)(x), it)
		done(err)
		if err != nil {
			x.client().failed("unsubscribe", it.Channel, err)
			errs = append(errs, err)
		}
		x.farewell("Unsubscribed", it.Channel, it.Connected && x.has().Unsubscribed, func(ctx context.Context, c *Client, app Application) {
			app.Unsubscribed(ctx, c, it)
		})
	}
	return true, errors.Join(errs...)
}

// silent reports whether subscriptions can end without a call that may block.
func (x *executor) silent(items []effect.DetachItem) bool {
	return x.node().Engines.Local && !x.has().Unsubscribed &&
		!slices.ContainsFunc(items, func(it effect.DetachItem) bool { return it.Leave })
}

func (x *executor) Renew(items []effect.RenewItem, inline bool) bool {
	if inline && !x.node().Engines.Local {
		return false
	}
	for _, it := range items {
		ctx, done := x.begin(&x.lifetime, &observe.Effect{Name: "renew", Channel: it.Channel, Inline: inline})
		err := x.node().Engines.Appear(ctx, it.Info, it.Maps)
		if it.Presence {
			err = cmp.Or(x.node().Engines.Presence.Add(ctx, it.Channel, it.Info), err)
		}
		done(err)
		if err != nil {
			x.client().failed("renewing presence", it.Channel, err)
		}
	}
	return true
}

func (x *executor) Close(e *effect.Close, inline bool) bool {
	x.lifetime.End() // before the handlers, also if the queue of effects is faster than the loop
	tell := e.Connected && x.has().Disconnected
	if inline && tell {
		return false
	}
	if done, _ := x.Detach(e.Items, inline); !done { // Detach logs its errors
		return false
	}
	x.farewell("Disconnected", "", tell, func(ctx context.Context, c *Client, app Application) {
		app.Disconnected(ctx, c, e.Disconnect)
	})
	return true
}

func (x *executor) Join(e *effect.Join) {
	ctx, done := x.begin(x.client().work(), &observe.Effect{Name: "join", Channel: e.Channel})
	err := x.node().Engines.Broker.PublishJoin(ctx, e.Channel, e.Info)
	done(err)
	if err != nil {
		x.client().failed("publish join", e.Channel, err)
	}
}

func (x *executor) Publish(e *effect.Publish) {
	e.Err = command(x, "Publish", e.Request.Channel, e, Application.Publish)
}

func (x *executor) Presence(e *effect.Presence) {
	e.Err = command(x, "Presence", e.Channel, e, Application.Presence)
}

func (x *executor) PresenceStats(e *effect.PresenceStats) {
	e.Err = command(x, "PresenceStats", e.Channel, e, Application.PresenceStats)
}

func (x *executor) History(e *effect.History) {
	e.Err = command(x, "History", e.Channel, e, Application.History)
}

func (x *executor) RPC(e *effect.RPC) {
	what := &observe.Effect{Name: "RPC", Method: e.Request.Method}
	e.Err = x.handle(x.client().work(), what, func(ctx context.Context, c *Client, app Application) error { return app.RPC(ctx, c, e) })
}

func (x *executor) Message(e *effect.Message) {
	e.Err = command(x, "Message", "", e, Application.Message)
}

func (x *executor) Refresh(e *effect.Refresh) {
	e.Err = command(x, "Refresh", "", e, func(app Application, ctx context.Context, c *Client, e *effect.Refresh) error {
		known, err := app.Refresh(ctx, c, e)
		if err == nil && !e.Expired && known.any() {
			c.ctx.Store(c.ctx.Load().With(&c.lifetime, c.loop.clients.handling, known))
		}
		return err
	})
}

func (x *executor) SubRefresh(e *effect.SubRefresh) {
	e.Err = command(x, "SubRefresh", e.Channel, e, Application.SubRefresh)
}

func (x *executor) Track(e *effect.Track, inline bool) bool {
	if len(e.Request.Track) == 0 || inline {
		return len(e.Request.Track) == 0
	}
	ask := e.Ask(x.id.String(), x.session.User())
	e.Err = command(x, "Track", e.Request.Channel, e, func(_ Application, ctx context.Context, _ *Client, e *effect.Track) error {
		return e.Poll.Track(ctx, ask)
	})
	if e.Err == nil {
		e.Answer(ask)
	}
	return true
}

// command calls the handler of an effect that is never inline, by the method call of Application.
func command[E effect.Effect](x *executor, name, ch string, e E, call func(app Application, ctx context.Context, c *Client, e E) error) error {
	return x.handle(x.client().work(), &observe.Effect{Name: name, Channel: ch}, func(ctx context.Context, c *Client, app Application) error {
		return call(app, ctx, c, e)
	})
}

// handle calls a handler. A panic becomes an error, and an error that is no answer is logged.
func (x *executor) handle(ctx context.Context, what *observe.Effect, f func(ctx context.Context, c *Client, app Application) error) (err error) {
	c := x.client()
	done := unobserved
	defer func() {
		if r := recover(); r != nil {
			c.handlerPanicked(what, r)
			err = protocol.ErrorInternal
			done(err)
		}
	}()
	ctx, done = x.begin(ctx, what)
	if err = f(ctx, c, x.node().Application); err != nil {
		err = Sound(err)
		c.handlerFailed(what, err)
	}
	done(err)
	return err
}

// errHollow replaces a nil pointer that a handler returned as an error.
var errHollow = errors.New("a nil *gyro.Error or *gyro.Disconnect was returned as an error: return nil for none")

// unsound is for a code that no server sends. It wraps the answer in its place.
type unsound struct{ why, answer error }

func (u *unsound) Error() string { return "an answer that no client can get: " + u.why.Error() }
func (u *unsound) Unwrap() error { return u.answer }

// Sound returns the error of a handler, or a replacement: for a nil *protocol.Error or *protocol.Disconnect, which is
// not the error nil, an error that says so; for a code out of range protocol.DisconnectServerError or
// protocol.ErrorInternal, with an error that names the range.
func Sound(err error) error {
	if hollow(err) {
		return errHollow
	}
	if d, ok := errors.AsType[protocol.Disconnect](err); ok {
		if why := d.Check(); why != nil {
			return &unsound{why, protocol.DisconnectServerError}
		}
	} else if e, ok := errors.AsType[*protocol.Error](err); ok {
		if why := e.Check(); why != nil {
			return &unsound{why, protocol.ErrorInternal}
		}
	}
	return err
}

func hollow(err error) bool {
	switch e := err.(type) { //nolint:errorlint // errors.As would call methods of the nil pointer
	case *protocol.Error:
		return e == nil
	case *protocol.Disconnect:
		return e == nil
	case interface{ Unwrap() error }:
		return hollow(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), hollow)
	}
	return false
}

func (x *executor) notify(ctx context.Context, name, ch string, f func(ctx context.Context, c *Client, app Application)) {
	what := &observe.Effect{Name: name, Channel: ch}
	_ = x.handle(ctx, what, func(ctx context.Context, c *Client, app Application) error { f(ctx, c, app); return nil })
}

// farewell calls a handler for the end of a connection or a subscription.
func (x *executor) farewell(name, ch string, handled bool, f func(ctx context.Context, c *Client, app Application)) {
	if handled {
		ctx, done := x.client().parting()
		defer done()
		x.notify(ctx, name, ch, f)
	}
}

func (c *Client) handlerPanicked(what *observe.Effect, reason any) {
	c.loop.clients.panics.Add(1)
	c.loop.clients.Log.Error("handler panicked", append(c.during(what), "panic", fmt.Sprint(reason), "stack", string(debug.Stack()))...)
}

// during has the fields of a log line about an effect.
func (c *Client) during(what *observe.Effect) []any {
	args := []any{"handler", what.Name, "client", c.ID(), "user", c.UserID()}
	if what.Channel != "" {
		args = append(args, "channel", what.Channel)
	}
	if what.Method != "" {
		args = append(args, "method", what.Method)
	}
	return args
}

func (c *Client) handlerFailed(what *observe.Effect, err error) {
	_, wrong := errors.AsType[*unsound](err)
	switch {
	case errors.Is(err, ErrWouldBlock), c.hasGone(err):
	case !wrong && answerCode(err) != 0:
		c.refused(what, err)
	default:
		c.loop.clients.Log.Error("handler failed", append(c.during(what), "error", err)...)
	}
}

// hasGone reports whether err only says that the client has gone.
func (c *Client) hasGone(err error) bool {
	return c.lifetime.Err() != nil && errors.Is(err, context.Canceled)
}

// failed logs an error of an engine, unless the client has gone.
func (c *Client) failed(what, ch string, err error) {
	_, reason := errors.AsType[*refusal.Reason](err)
	switch code := answerCode(err); {
	case c.hasGone(err):
	case code != 0 && (code != protocol.ErrorInternal.Code || reason):
		c.report(what+" refused", ch, err)
	default:
		c.loop.clients.Log.Error(what+" failed", "channel", ch, "client", c.ID(), "user", c.UserID(), "error", err)
	}
}

// owner implements engines.Owner.
type owner Client

func (o *owner) ID() string                        { return o.id.String() }
func (o *owner) Loop() int                         { return o.loop.Index }
func (o *owner) Failed(what, ch string, err error) { (*Client)(o).failed(what, ch, err) }
func (o *owner) Panicked(reason any, stack []byte) { (*Client)(o).panicked(reason, stack) }
