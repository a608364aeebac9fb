// Package life has the context of a connection. It costs one pointer until somebody waits
// for its end.
package life

import (
	"context"
	"sync/atomic"
	"time"
)

// Life implements context.Context: a context that ends with its connection. Callers rarely
// ask for Done, so Life makes the channel, and the context of the standard library that has
// it, only then. Contexts derived from Life need no goroutine.
type Life struct{ made atomic.Pointer[cancelable] }

type cancelable struct {
	context.Context
	cancel context.CancelFunc
}

// over is the context of connections that ended before somebody asked for Done.
var over = func() *cancelable {
	c := newCancelable()
	c.cancel()
	return c
}()

func newCancelable() *cancelable {
	ctx, cancel := context.WithCancel(context.Background())
	return &cancelable{ctx, cancel}
}

// End ends the context. Calls after the first do nothing.
func (l *Life) End() {
	if l.made.CompareAndSwap(nil, over) {
		return
	}
	if c := l.made.Load(); c != over { // whose lock all connections share
		c.cancel()
	}
}

func (l *Life) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l *Life) Done() <-chan struct{} {
	if l.made.Load() == nil {
		l.made.CompareAndSwap(nil, newCancelable())
	}
	return l.made.Load().Done()
}

func (l *Life) Err() error {
	if c := l.made.Load(); c != nil {
		return c.Err()
	}
	return nil
}

// Value returns values for keys of package context only, by which that package recognises
// the context that Life has made.
func (l *Life) Value(key any) any {
	if c := l.made.Load(); c != nil {
		return c.Value(key)
	}
	return nil
}

// Context implements context.Context: it ends with a Life and has the values of another
// context. It also holds the meta of its connection. It is never modified.
type Context struct {
	*Life
	values, work context.Context
	// Meta of the connection; nil if there is none.
	Meta []byte
}

// NewContext returns a context that ends with l and has the values of values, which may be
// nil. The context that its method Work returns ends with work.
func NewContext(l *Life, work, values context.Context, meta []byte) *Context {
	if values == nil {
		values = context.Background()
	}
	// Without WithoutCancel, package context would take values for a parent that ends.
	return &Context{l, context.WithoutCancel(values), work, meta}
}

// WithMeta returns a context like NewContext, with the values of c, which may be nil.
func (c *Context) WithMeta(l *Life, work context.Context, meta []byte) *Context {
	if c == nil {
		return NewContext(l, work, nil, meta)
	}
	return &Context{l, c.values, work, meta}
}

func (c *Context) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Life.Value(key)
}

// Work returns a context with the values of c for work that may outlive the connection.
func (c *Context) Work() context.Context { return (*work)(c) }

// Until returns a context with the values of c that ends with end.
func (c *Context) Until(end context.Context) context.Context {
	return (*work)(&Context{values: c.values, work: end})
}

// work implements context.Context.
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
