package client

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/loop"
)

// Bounds of a step, about a slice of a delivery.
const (
	stepLooks    = 512   // clients that are looked at
	stepDescribe = 64    // clients that are described
	stepChannels = 1_000 // subscriptions that are described
)

// Walk goes through the node's connections in steps, between which the loops do other work. It meets each client that
// has connected before and stays until the end once, and none that comes to a loop later. One goroutine at a time uses
// it; Close ends its use.
type Walk struct {
	clients *Registry
	loop    int     // index of the loop where the walk is
	at      *cursor // there; nil: it has not begun
}

// cursor is the place of a walk in a loop, and used on it.
type cursor struct {
	listed bool
	next   *Client // nil: the walk has ended here, or not begun
}

// Walk begins a walk.
func (r *Registry) Walk() *Walk { return &Walk{clients: r} }

// step calls look on a loop with the next clients until it returns false, at most stepLooks times. more is false at the
// end. With an error, look may still run.
func (w *Walk) step(ctx context.Context, look func(c *Client) bool) (more bool, err error) {
	if open, _ := w.clients.State(); !open || w.loop == len(w.clients.loops) {
		return false, nil
	}
	if w.at == nil {
		w.at = new(cursor)
	}
	l, at, over := w.clients.loops[w.loop], w.at, false
	if !l.call(ctx, func() { over = l.walk(at, look) }) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		return false, errShuttingDown
	}
	if over {
		w.loop, w.at = w.loop+1, nil
	}
	return w.loop < len(w.clients.loops), nil
}

func (w *Walk) Close() {
	if at := w.at; at != nil {
		l := w.clients.loops[w.loop]
		l.Post(loop.Func(func() { l.unlist(at) }))
		w.loop, w.at = len(w.clients.loops), nil
	}
}

// walk returns true at the end of the list.
func (l *Loop) walk(at *cursor, look func(*Client) bool) (over bool) {
	if !at.listed {
		at.listed, at.next = true, l.first
		l.cursors = append(l.cursors, at)
	}
	for range stepLooks {
		c := at.next
		if c == nil {
			break
		}
		at.next = c.next // before look, which may close c
		if _, connected := c.session.Agent(); connected && !look(c) {
			break
		}
	}
	if at.next == nil {
		l.unlist(at)
		return true
	}
	return false
}

func (l *Loop) unlist(at *cursor) {
	l.cursors = slices.DeleteFunc(l.cursors, func(other *cursor) bool { return other == at })
}

// Connections describes the next connections that f and matches select, up to a step. more is false at the end.
func (w *Walk) Connections(ctx context.Context, f *inspect.Filter, matches func(labels map[string]string) bool) (list []inspect.Connection, more bool, err error) {
	var id uuid.UUID
	if f.Client != "" {
		if id, _ = uuid.Parse(f.Client); id == uuid.Nil {
			return nil, false, nil // no client has that ID
		}
	}
	channels := 0
	more, err = w.step(ctx, func(c *Client) bool {
		if f.Client != "" && c.id != id || f.User != "" && c.UserID() != f.User || f.Channel != "" && !c.session.Subscribed(f.Channel) {
			return true
		}
		if labels := inspect.Labels(c.Context()); matches(labels) {
			list = append(list, c.describe(labels))
			channels += len(list[len(list)-1].Channels)
		}
		return len(list) < stepDescribe && channels < stepChannels
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}

// Users returns users of the next connections, each once per loop, without anonymous ones.
func (w *Walk) Users(ctx context.Context) (list []string, more bool, err error) {
	more, err = w.step(ctx, func(c *Client) bool {
		if user := c.UserID(); user != "" && c.userSlot == 0 {
			list = append(list, user)
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}
