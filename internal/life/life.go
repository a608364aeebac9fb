// Package life is the context of a connection, at the price of a pointer while nobody
// waits for its end.
package life

import (
	"context"
	"sync/atomic"
	"time"
)

// Life is the context of a connection: it ends with it. Hardly any connection is
// asked for a channel to wait on, so the context of the standard library that has
// one, and that others can derive from at no cost, is made when it is asked for.
type Life struct{ made atomic.Pointer[cancelable] }

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

// End ends the life. Calls after the first do nothing.
func (l *Life) End() {
	if !l.made.CompareAndSwap(nil, over) {
		l.made.Load().cancel()
	}
}

// Deadline implements context.Context.
func (l *Life) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (l *Life) Done() <-chan struct{} {
	if l.made.Load() == nil {
		l.made.CompareAndSwap(nil, newCancelable())
	}
	return l.made.Load().Done()
}

// Err implements context.Context.
func (l *Life) Err() error {
	if c := l.made.Load(); c != nil {
		return c.Err()
	}
	return nil
}

// Value implements context.Context. A connection has no values of its own; the
// context package finds the one that was made by a key that only it knows.
func (l *Life) Value(key any) any {
	if c := l.made.Load(); c != nil {
		return c.Value(key)
	}
	return nil
}

// Context ends with a life, has values, and holds what else few connections have. It is
// never modified.
type Context struct {
	*Life
	values, work context.Context
	// Meta of the connection; nil if there is none.
	Meta []byte
}

// NewContext returns a context that ends with l, and not with values, which may be nil.
// Its Work ends with work.
func NewContext(l *Life, work, values context.Context, meta []byte) *Context {
	if values == nil {
		values = context.Background()
	}
	// Values that end would be taken for the cause by the context package.
	return &Context{l, context.WithoutCancel(values), work, meta}
}

// WithMeta returns a context with the values of c, which may be nil, and other meta. Its
// Work ends with work.
func (c *Context) WithMeta(l *Life, work context.Context, meta []byte) *Context {
	if c == nil {
		return NewContext(l, work, nil, meta)
	}
	return &Context{l, c.values, work, meta}
}

// Value looks in the values first.
func (c *Context) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Life.Value(key)
}

// Work is the context of what is done for the connection, and outlives it: it has the
// values of c.
func (c *Context) Work() context.Context { return (*work)(c) }

type work Context

func (w *work) Deadline() (time.Time, bool) { return w.work.Deadline() }
func (w *work) Done() <-chan struct{}       { return w.work.Done() }
func (w *work) Err() error                  { return w.work.Err() }
func (w *work) Value(key any) any {
	if v := w.values.Value(key); v != nil {
		return v
	}
	return w.work.Value(key)
}

var (
	_ context.Context = (*Life)(nil)
	_ context.Context = (*Context)(nil)
	_ context.Context = (*work)(nil)
)
