package engines

import (
	"context"
	"errors"
	"sync"
	"time"
)

// fillRest is how long an outcome counts: meanwhile the application is not asked about the channel again.
const fillRest = time.Second

// Ask asks the application about a channel, and reports whether its stream has publications now. With inline it must not
// block: it returns an error instead.
type Ask func(ctx context.Context, ch string, inline bool) (filled bool, err error)

// Filler asks the application to fill empty streams, about each channel once, however many clients need it. Any
// goroutine may use it.
type Filler struct {
	ask    Ask
	inline bool
	// More outcomes than most are shared only with the clients that wait for them.
	most    int
	running sync.WaitGroup // calls

	mu    sync.Mutex
	calls map[string]*fillCall // by channel: calls under way, and calls whose outcome counts
}

var errMayBlock = errors.New("the application may block")

type fillCall struct {
	cancel  context.CancelFunc
	waiting int // guarded by Filler.mu

	done   chan struct{} // closed once filled and err are set
	filled bool
	err    error
}

// NewFiller returns a Filler.
func NewFiller(ask Ask, inline bool) *Filler {
	return &Filler{ask: ask, inline: inline, most: 65536, calls: make(map[string]*fillCall)}
}

// Close cancels the calls under way and waits for them. No method may be called after it.
func (f *Filler) Close() {
	f.mu.Lock()
	for _, c := range f.calls {
		c.cancel()
	}
	f.mu.Unlock()
	f.running.Wait()
}

// Inline asks without blocking. An error says that the caller must call Do.
func (f *Filler) Inline(ch string) (filled bool, err error) {
	if !f.inline {
		return false, errMayBlock
	}
	return f.ask(context.Background(), ch, true)
}

// Do shares the call with all who ask about the channel at the same time, or up to fillRest later. If ctx ends before,
// it returns its error; a call without a waiting caller is canceled and forgotten.
func (f *Filler) Do(ctx context.Context, ch string) (filled bool, err error) {
	if filled, err = f.Inline(ch); err == nil {
		return filled, nil
	}
	c := f.join(ch)
	select {
	case <-c.done:
		return c.filled, c.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		f.forget(ch, c)
	}
	return false, ctx.Err()
}

func (f *Filler) join(ch string) *fillCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[ch]
	if c == nil {
		ctx, cancel := context.WithCancel(context.Background())
		c = &fillCall{cancel: cancel, done: make(chan struct{})}
		f.calls[ch] = c
		f.running.Go(func() { f.run(ctx, ch, c) })
	}
	c.waiting++
	return c
}

func (f *Filler) run(ctx context.Context, ch string, c *fillCall) {
	defer c.cancel()
	c.filled, c.err = f.ask(ctx, ch, false)
	close(c.done)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) > f.most {
		f.forget(ch, c)
		return
	}
	time.AfterFunc(fillRest, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(ch, c)
	})
}

func (f *Filler) forget(ch string, c *fillCall) {
	if f.calls[ch] == c {
		delete(f.calls, ch)
	}
}
