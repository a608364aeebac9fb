package client

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
)

// lifetime implements context.Context, and ends with its connection. It costs one pointer until a goroutine waits for
// its end, which is rare; only then it makes a context of the standard library. Contexts derived from it need no
// goroutine.
type lifetime struct{ made atomic.Pointer[awaitedEnd] }

// awaitedEnd is for goroutines that wait.
type awaitedEnd struct {
	mu    sync.Mutex
	ended bool
	calls *endCall    // calls to make at the end
	ctx   *cancelable // nil until the first call of Done
}

// endCall is a call that AfterFunc makes at the end.
type endCall struct {
	of         *awaitedEnd
	f          func()
	waits      bool // it is in the list of calls
	prev, next *endCall
}

type cancelable struct {
	context.Context
	cancel context.CancelFunc
}

// overAlready is shared by all lifetimes that ended before any goroutine waited.
var overAlready = func() *awaitedEnd {
	a := &awaitedEnd{ended: true, ctx: newCancelable()}
	a.ctx.cancel()
	return a
}()

func newCancelable() *cancelable {
	ctx, cancel := context.WithCancel(context.Background())
	return &cancelable{ctx, cancel}
}

// End may be called again.
func (l *lifetime) End() {
	if l.made.CompareAndSwap(nil, overAlready) {
		return
	}
	if a := l.made.Load(); a != overAlready { // whose lock all connections share
		a.end()
	}
}

func (a *awaitedEnd) end() {
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

func (l *lifetime) await() *awaitedEnd {
	if l.made.Load() == nil {
		l.made.CompareAndSwap(nil, new(awaitedEnd))
	}
	return l.made.Load()
}

// AfterFunc is context.AfterFunc in a fifth of the time, with 4 allocations in place of 10, and 32 bytes until the
// connection ends.
func (l *lifetime) AfterFunc(f func()) (stop func() bool) {
	c := &endCall{of: l.await(), f: f}
	if a := c.of; a == overAlready || !a.add(c) {
		go f()
		return func() bool { return false }
	}
	return c.stop
}

// add reports false if the lifetime has ended.
func (a *awaitedEnd) add(c *endCall) bool {
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

func (a *awaitedEnd) remove(c *endCall) {
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
func (c *endCall) stop() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	waited := c.waits
	if waited {
		c.of.remove(c)
	}
	return waited
}

func (a *awaitedEnd) context() context.Context {
	if a == overAlready {
		return overAlready.ctx
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ctx != nil:
	case a.ended:
		a.ctx = overAlready.ctx
	default:
		a.ctx = newCancelable()
	}
	return a.ctx
}

func (l *lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l *lifetime) Done() <-chan struct{} { return l.await().context().Done() }

func (l *lifetime) Err() error {
	switch a := l.made.Load(); a {
	case nil:
		return nil
	case overAlready:
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

// Value is for package context only, which recognises its own context by it. It asks for Done first.
func (l *lifetime) Value(key any) any {
	a := l.made.Load()
	if a == nil {
		return nil
	}
	if a != overAlready {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	if a.ctx == nil {
		return nil
	}
	return a.ctx.Value(key)
}

// valueContext implements context.Context: it ends with a lifetime and has the values of another context. It is never
// modified.
type valueContext struct {
	*lifetime
	values, work context.Context
	Known
}

// Known is what the application knows of a client.
type Known struct {
	Meta         []byte
	Capabilities *channel.Capabilities
}

func (k Known) any() bool { return k.Meta != nil || k.Capabilities != nil }

// newValueContext: values may be nil. Work of the result ends with work.
func newValueContext(l *lifetime, work, values context.Context, known Known) *valueContext {
	if values == nil {
		values = context.Background()
	}
	// Without WithoutCancel, package context would take values for a parent that ends.
	return &valueContext{l, context.WithoutCancel(values), work, known}
}

// requestContext has the values of a request. It ends with l, with the request if that ends at all, and by done.
func requestContext(l *lifetime, request context.Context) (ctx context.Context, done func()) {
	if request.Done() != nil {
		ctx, cancel := context.WithCancel(request)
		stop := l.AfterFunc(cancel)
		return ctx, func() {
			stop()
			cancel()
		}
	}
	own := new(lifetime)
	stop := l.AfterFunc(own.End)
	return &valueContext{lifetime: own, values: context.WithoutCancel(request)}, func() {
		stop()
		own.End()
	}
}

// With is newValueContext with the values of c, which may be nil. A nil field of known leaves the field of c.
func (c *valueContext) With(l *lifetime, work context.Context, known Known) *valueContext {
	if c == nil {
		return newValueContext(l, work, nil, known)
	}
	if known.Meta == nil {
		known.Meta = c.Meta
	}
	return &valueContext{l, c.values, work, Known{known.Meta, cmp.Or(known.Capabilities, c.Capabilities)}}
}

func (c *valueContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.lifetime.Value(key)
}

// Work has the values of c, for work that may outlive the connection.
func (c *valueContext) Work() context.Context { return (*workContext)(c) }

// Until has the values of c and ends with end.
func (c *valueContext) Until(end context.Context) context.Context {
	return (*workContext)(&valueContext{values: c.values, work: end})
}

type workContext valueContext

func (w *workContext) Deadline() (time.Time, bool) { return w.work.Deadline() }
func (w *workContext) Done() <-chan struct{}       { return w.work.Done() }
func (w *workContext) Err() error                  { return w.work.Err() }
func (w *workContext) Value(key any) any {
	if v := w.values.Value(key); v != nil {
		return v
	}
	return w.work.Value(key)
}
