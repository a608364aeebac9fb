// Package life has the context of a connection. It costs one pointer until some goroutine waits for its end.
package life

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Life implements context.Context: a context that ends with its connection. Callers rarely
// ask for Done, so Life makes the channel, and the context of the standard library that has
// it, only then. Contexts derived from Life need no goroutine.
type Life struct{ made atomic.Pointer[awaited] }

// awaited is a Life with a goroutine that waits for its end.
type awaited struct {
	mu    sync.Mutex
	ended bool
	calls *call       // calls to make at the end
	ctx   *cancelable // nil until the first call of Done
}

// call is one call that AfterFunc makes at the end.
type call struct {
	of         *awaited
	f          func()
	waits      bool // it is in the list of calls
	prev, next *call
}

type cancelable struct {
	context.Context
	cancel context.CancelFunc
}

// over is shared by all Lives that ended before any goroutine waited for the end.
var over = func() *awaited {
	a := &awaited{ended: true, ctx: newCancelable()}
	a.ctx.cancel()
	return a
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
	if a := l.made.Load(); a != over { // whose lock all connections share
		a.end()
	}
}

func (a *awaited) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.ctx != nil {
		a.ctx.cancel()
	}
	for a.calls != nil {
		c := a.calls
		a.remove(c)
		go c.f()
	}
}

// await returns the part for goroutines that wait for the end, and makes it at the first call.
func (l *Life) await() *awaited {
	if l.made.Load() == nil {
		l.made.CompareAndSwap(nil, new(awaited))
	}
	return l.made.Load()
}

// AfterFunc does what context.AfterFunc does, in a fifth of the time and with 4 allocations in place of 10. Until the connection
// ends, 32 bytes are left of it.
func (l *Life) AfterFunc(f func()) (stop func() bool) {
	c := &call{of: l.await(), f: f}
	if a := c.of; a == over || !a.add(c) {
		go f()
		return func() bool { return false }
	}
	return c.stop
}

// add reports false if the life has ended.
func (a *awaited) add(c *call) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	if c.next = a.calls; c.next != nil {
		c.next.prev = c
	}
	a.calls, c.waits = c, true
	return true
}

func (a *awaited) remove(c *call) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		a.calls = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.waits, c.prev, c.next = false, nil, nil
}

// stop reports false if the call was made, or stopped, before.
func (c *call) stop() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	waited := c.waits
	if waited {
		c.of.remove(c)
	}
	return waited
}

// context returns the context of the standard library that ends with the life.
func (a *awaited) context() context.Context {
	if a == over {
		return over.ctx
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
	case a.ended:
		a.ctx = over.ctx
	default:
		a.ctx = newCancelable()
	}
	return a.ctx
}

func (l *Life) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l *Life) Done() <-chan struct{} { return l.await().context().Done() }

func (l *Life) Err() error {
	switch a := l.made.Load(); a {
	case nil:
		return nil
	case over:
		return context.Canceled
	default:
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.ended {
			return context.Canceled
		}
		return nil
	}
}

// Value returns values for keys of package context only: by them, that package recognises the context that Life has
// made. It asks for Done first.
func (l *Life) Value(key any) any {
	a := l.made.Load()
	if a == nil {
		return nil
	}
	if a != over {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	if a.ctx == nil {
		return nil
	}
	return a.ctx.Value(key)
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

// During returns a context with the values of a request. It ends with l, with the request if that ends at all, and when the caller
// calls done.
func During(l *Life, request context.Context) (ctx context.Context, done func()) {
	if request.Done() != nil {
		ctx, cancel := context.WithCancel(request)
		stop := l.AfterFunc(cancel)
		return ctx, func() {
			stop()
			cancel()
		}
	}
	own := new(Life)
	stop := l.AfterFunc(own.End)
	return &Context{Life: own, values: context.WithoutCancel(request)}, func() {
		stop()
		own.End()
	}
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
