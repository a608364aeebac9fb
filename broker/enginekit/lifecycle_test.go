package enginekit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

var (
	errRunTwice   = errors.New("run twice")
	errNotRunning = errors.New("not running")
	errClosed     = errors.New("closed")
)

func newLifecycle() *Lifecycle {
	return &Lifecycle{ErrRunTwice: errRunTwice, ErrNotRunning: errNotRunning, ErrClosed: errClosed}
}

func TestLifecycle(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLifecycle()
	want := func(state string, check error) {
		t.Helper()
		if err := l.Check(t.Context()); !errors.Is(err, check) || l.IsRunning() != (check == nil) {
			t.Errorf("%s: %v", state, err)
		}
		closed := errors.Is(check, errClosed)
		if did := l.UnlessClosed(func() {}); did == closed {
			t.Errorf("%s: UnlessClosed returns %v", state, did)
		}
	}
	want("new", errNotRunning)
	broken := errors.New("broken")
	if err := l.Prepare(func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("prepared: %v", err)
	}
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	want("starting", errNotRunning)
	for name, err := range map[string]error{"started": l.Start(), "prepared": l.Prepare(func() error { t.Error("prepared"); return nil })} {
		if !errors.Is(err, errRunTwice) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	began := false
	if err := l.Running(func() { began = !l.IsRunning() }); err != nil || !began {
		t.Fatal(err, began)
	}
	want("running", nil)
	if err := l.Check(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	if before := l.Close(); before != StateRunning {
		t.Errorf("before: %v", before)
	}
	want("closed", errClosed)
	if before := l.Close(); before != StateClosed {
		t.Errorf("closed again, before: %v", before)
	}
	if err := l.Start(); !errors.Is(err, errRunTwice) {
		t.Errorf("run after Close: %v", err)
	}
}

// TestClosedWhileStarting: Run finds out at its end.
func TestClosedWhileStarting(t *testing.T) {
	l := newLifecycle()
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	if before := l.Close(); before != StateStarting {
		t.Errorf("before: %v", before)
	}
	if err := l.Running(func() { t.Error("a closed broker begins") }); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// TestCallsWaitForBegin: a call that comes while the broker begins to run succeeds.
func TestCallsWaitForBegin(t *testing.T) {
	l := newLifecycle()
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	checked := make(chan error)
	err := l.Running(func() {
		called := make(chan struct{})
		go func() {
			close(called)
			checked <- l.Check(t.Context())
		}()
		<-called
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-checked; err != nil {
		t.Error(err)
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Await(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		goesOn, done := make(chan struct{}), make(chan struct{})
		go func() {
			synctest.Wait()
			cancel()
		}()
		err := Await(ctx, func() {
			<-goesOn
			close(done)
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(goesOn)
		<-done
	})
}
