package gyro

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
)

// Call is one call of a handler.
type Call struct {
	// Handler is the field of Handlers: "Connecting", "Subscribe", ….
	Handler string
	// Client is nil for Connecting, CacheEmpty and Survey.
	Client *Client
	// Event is the handler's argument, by value: a ConnectEvent, …; for Message a []byte, for Connected nil.
	Event any
}

// HandlerFunc is any handler. The reply is its result, by value: a ConnectReply, …; for RPC a []byte; nil if there is
// none.
type HandlerFunc func(ctx context.Context, call Call) (reply any, err error)

// Interceptor wraps a handler: New calls it once for each handler that is not nil, and the node calls the function
// that it returns. That function calls next, or answers itself. It may change the context, the Event, the reply and
// the error.
//
// It is under the rules of Handlers: calls for different clients are concurrent, a panic is contained, an error
// answers the client. If the Event is Inline, it must not block, and may return ErrWouldBlock, which is no failure:
// the node calls it once more where it may block. An error for Connected, Unsubscribed or Disconnected is logged.
//
// An Event or a reply of another type than the handler's is an error.
type Interceptor func(next HandlerFunc) HandlerFunc

func (h Handlers) intercepted(interceptors []Interceptor, log *slog.Logger) Handlers {
	if len(interceptors) == 0 {
		return h
	}
	w := wrapper{interceptors, log}
	h.Connecting = withoutClient(w, "Connecting", h.Connecting)
	if f := h.Connected; f != nil {
		connected := notice(w, "Connected", func(ctx context.Context, c *Client, _ any) { f(ctx, c) })
		h.Connected = func(ctx context.Context, c *Client) { connected(ctx, c, nil) }
	}
	h.Subscribe = wrap(w, "Subscribe", h.Subscribe)
	h.Unsubscribed = notice(w, "Unsubscribed", h.Unsubscribed)
	h.Publish = wrap(w, "Publish", h.Publish)
	h.MapChange = wrap(w, "MapChange", h.MapChange)
	h.Presence = wrap(w, "Presence", h.Presence)
	h.PresenceStats = wrap(w, "PresenceStats", h.PresenceStats)
	h.History = wrap(w, "History", h.History)
	h.CacheEmpty = withoutClient(w, "CacheEmpty", h.CacheEmpty)
	h.RPC = wrap(w, "RPC", h.RPC)
	if f := h.Message; f != nil {
		message := wrap(w, "Message", func(ctx context.Context, c *Client, data []byte) (any, error) { return nil, f(ctx, c, data) })
		h.Message = func(ctx context.Context, c *Client, data []byte) error {
			_, err := message(ctx, c, data)
			return err
		}
	}
	h.Refresh = wrap(w, "Refresh", h.Refresh)
	h.SubRefresh = wrap(w, "SubRefresh", h.SubRefresh)
	h.Survey = withoutClient(w, "Survey", h.Survey)
	h.Disconnected = notice(w, "Disconnected", h.Disconnected)
	return h
}

type wrapper struct {
	interceptors []Interceptor
	log          *slog.Logger
}

// wrap returns nil for nil. If R is any, each reply is accepted.
func wrap[E, R any](w wrapper, name string, h func(context.Context, *Client, E) (R, error)) func(context.Context, *Client, E) (R, error) {
	if h == nil {
		return nil
	}
	next := HandlerFunc(func(ctx context.Context, call Call) (any, error) {
		e, err := typed[E](call.Event, name, "event")
		if err != nil {
			return nil, err
		}
		return h(ctx, call.Client, e)
	})
	for _, i := range slices.Backward(w.interceptors) {
		next = i(next)
	}
	return func(ctx context.Context, c *Client, e E) (R, error) {
		reply, err := next(ctx, Call{Handler: name, Client: c, Event: e})
		if err != nil {
			var none R
			return none, err
		}
		return typed[R](reply, name, "reply")
	}
}

func typed[T any](v any, name, what string) (T, error) {
	t, ok := v.(T)
	if _, any := any(&t).(*any); !ok && !any {
		return t, fmt.Errorf("gyro: an interceptor of %s gave the %s %T in place of %T", name, what, v, t)
	}
	return t, nil
}

// withoutClient is wrap for a handler without a client.
func withoutClient[E, R any](w wrapper, name string, h func(context.Context, E) (R, error)) func(context.Context, E) (R, error) {
	if h == nil {
		return nil
	}
	f := wrap(w, name, func(ctx context.Context, _ *Client, e E) (R, error) { return h(ctx, e) })
	return func(ctx context.Context, e E) (R, error) { return f(ctx, nil, e) }
}

// notice is wrap for a handler that returns nothing.
func notice[E any](w wrapper, name string, h func(context.Context, *Client, E)) func(context.Context, *Client, E) {
	if h == nil {
		return nil
	}
	f := wrap(w, name, func(ctx context.Context, c *Client, e E) (any, error) { h(ctx, c, e); return nil, nil })
	return func(ctx context.Context, c *Client, e E) {
		if _, err := f(ctx, c, e); err != nil {
			w.log.Error("interceptor failed", "handler", name, "client", c.ID(), "user", c.UserID(), "error", err)
		}
	}
}
