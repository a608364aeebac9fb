package engines

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// application answers after a second, and counts.
type application struct {
	calls, active, canceled atomic.Int64
	filled                  bool
	err                     error
}

func (a *application) ask(ctx context.Context, _ string, inline bool) (bool, error) {
	if inline {
		return false, errors.New("it would block")
	}
	a.calls.Add(1)
	a.active.Add(1)
	defer a.active.Add(-1)
	select {
	case <-time.After(time.Second):
		return a.filled, a.err
	case <-ctx.Done():
		a.canceled.Add(1)
		return false, ctx.Err()
	}
}

// Whoever needs a channel during a call, or up to Rest later, shares it; another channel has its own.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("failed")
		for _, a := range []*application{{filled: true}, {}, {err: failure}} {
			f := NewFiller(a.ask, true)
			var all sync.WaitGroup
			for i := range 1000 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * (time.Second + fillRest - 1) / 1000)
					if filled, err := f.Do(t.Context(), "a"); filled != a.filled || !errors.Is(err, a.err) {
						t.Errorf("%v, %v", filled, err)
					}
				})
			}
			all.Wait()
			if n := a.calls.Load(); n != 1 {
				t.Errorf("%d calls", n)
			}
			_, _ = f.Do(t.Context(), "b")
			time.Sleep(fillRest)
			_, _ = f.Do(t.Context(), "a")
			if n := a.calls.Load(); n != 3 {
				t.Errorf("%d calls after another channel, and after Rest", n)
			}
			time.Sleep(fillRest)
			if synctest.Wait(); len(f.calls) > 0 {
				t.Errorf("%d calls are kept", len(f.calls))
			}
		}
	})
}

// A caller that goes leaves the call to the others; if it was the last one, the call ends, and the
// next caller begins anew.
func TestCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{filled: true}
		f := NewFiller(a.ask, true)
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, ctx := range []context.Context{first, second} {
			all.Go(func() {
				if _, err := f.Do(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		leave()
		if synctest.Wait(); a.active.Load() != 1 {
			t.Error("the call ended with its first caller")
		}
		leaveToo()
		all.Wait()
		if synctest.Wait(); a.canceled.Load() != 1 || len(f.calls) != 0 {
			t.Errorf("%d calls canceled, %d kept", a.canceled.Load(), len(f.calls))
		}
		if filled, err := f.Do(t.Context(), "a"); !filled || err != nil || a.calls.Load() != 2 {
			t.Errorf("%v, %v, %d calls", filled, err, a.calls.Load())
		}
	})
}

// Close does not leave a call behind.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{}
		f := NewFiller(a.ask, true)
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = f.Do(ctx, "a") }()
		synctest.Wait()
		if f.Close(); a.active.Load() != 0 || a.canceled.Load() != 1 {
			t.Errorf("%d calls are under way", a.active.Load())
		}
		leave()
	})
}

// What is known inline needs no call.
func TestInline(t *testing.T) {
	f := NewFiller(func(_ context.Context, ch string, inline bool) (bool, error) {
		if !inline {
			t.Errorf("%s is asked about where it may block", ch)
		}
		return ch == "a", nil
	}, true)
	for ch, want := range map[string]bool{"a": true, "b": false} {
		if filled, err := f.Do(t.Context(), ch); filled != want || err != nil {
			t.Errorf("%s: %v, %v", ch, filled, err)
		}
	}
	a := &application{}
	if _, err := NewFiller(a.ask, false).Inline("a"); err == nil || a.calls.Load() != 0 {
		t.Errorf("asked inline, %v", err)
	}
}

// The memory of outcomes is bounded: those beyond are not kept.
func TestBound(t *testing.T) {
	f := NewFiller(func(_ context.Context, _ string, inline bool) (bool, error) {
		if inline {
			return false, errors.New("it would block")
		}
		return true, nil
	}, true)
	f.most = 100
	for i := range 2 * f.most {
		if _, err := f.Do(t.Context(), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.calls); n > f.most+2 { // the latest call may be on its way out
		t.Errorf("%d outcomes are kept", n)
	}
}
