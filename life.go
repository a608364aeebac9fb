package gyro

import (
	"context"
	"sync/atomic"
	"time"
)

// life is the context of a connection: it ends with it. Hardly any connection is
// asked for a channel to wait on, so the context of the standard library that has
// one, and that others can derive from at no cost, is made when it is asked for.
type life struct{ made atomic.Pointer[cancelable] }

type cancelable struct {
	context.Context
	cancel context.CancelFunc
}

// over is the context of connections that ended before anybody asked.
var over = func() *cancelable {
	c := newCancelable()
	c.cancel()
	return c
}()

func newCancelable() *cancelable {
	ctx, cancel := context.WithCancel(context.Background())
	return &cancelable{ctx, cancel}
}

// end is called once.
func (l *life) end() {
	if !l.made.CompareAndSwap(nil, over) {
		l.made.Load().cancel()
	}
}

// Deadline implements context.Context.
func (l *life) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (l *life) Done() <-chan struct{} {
	if l.made.Load() == nil {
		l.made.CompareAndSwap(nil, newCancelable())
	}
	return l.made.Load().Done()
}

// Err implements context.Context.
func (l *life) Err() error {
	if c := l.made.Load(); c != nil {
		return c.Err()
	}
	return nil
}

// Value implements context.Context. A connection has no values of its own; the
// context package finds the one that was made by a key that only it knows.
func (l *life) Value(key any) any {
	if c := l.made.Load(); c != nil {
		return c.Value(key)
	}
	return nil
}

// clientContext ends with the connection and holds the values that the
// Connecting handler chose. values is without cancellation of its own, or the
// context package would take its cause for this one's.
type clientContext struct {
	*life
	values context.Context
}

// Value looks in the application's context first.
func (c *clientContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.life.Value(key)
}

var (
	_ context.Context = (*life)(nil)
	_ context.Context = (*clientContext)(nil)
)
