package client

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

func TestLifeEndsWhatDerivesFromIt(t *testing.T) {
	var l lifetime
	if l.Err() != nil || l.made.Load() != nil {
		t.Fatal("a life that nobody asked for")
	}
	ctx, cancel := context.WithCancel(&l)
	defer cancel()
	if l.Err() != nil || ctx.Err() != nil {
		t.Fatal("ended too early")
	}
	l.End()
	<-l.Done()
	<-ctx.Done()
	if !errors.Is(l.Err(), context.Canceled) || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("errors %v, %v", l.Err(), ctx.Err())
	}
}

func TestLifeThatEndedUnseen(t *testing.T) {
	var l lifetime
	l.End()
	<-l.Done()
	if !errors.Is(l.Err(), context.Canceled) || l.made.Load() != overAlready {
		t.Error("not over")
	}
	ctx, cancel := context.WithCancelCause(&l)
	defer cancel(nil)
	<-ctx.Done()
}

func TestLifeIsMadeOnce(t *testing.T) {
	for range 100 {
		var (
			l  lifetime
			wg sync.WaitGroup
		)
		for range 4 {
			wg.Go(func() { <-l.Done() })
		}
		wg.Go(l.End)
		wg.Wait()
	}
}

type contextKey struct{}

func TestClientContextHasValues(t *testing.T) {
	var l lifetime
	node, stop := context.WithCancel(context.Background())
	c := newValueContext(&l, node, context.WithValue(context.Background(), contextKey{}, 1), Known{Meta: []byte("m")})
	work, done := context.WithCancel(c.Work())
	defer done()
	ctx, cancel := context.WithCancel(c)
	defer cancel()
	if ctx.Value(contextKey{}) != 1 || ctx.Value(1) != nil {
		t.Error("values are lost")
	}
	l.End()
	<-ctx.Done()
	// What is done for the connection has its values, and outlives it.
	if work.Err() != nil || work.Value(contextKey{}) != 1 || work.Value(1) != nil {
		t.Error("the work ended with the connection, or has no values")
	}
	stop()
	<-work.Done()
}

func TestMeta(t *testing.T) {
	var l lifetime
	c := newValueContext(&l, context.Background(), context.WithValue(context.Background(), contextKey{}, 1), Known{Meta: []byte("old")})
	next := c.With(&l, context.Background(), Known{Meta: []byte("new")})
	if string(c.Meta) != "old" || string(next.Meta) != "new" || next.Value(contextKey{}) != 1 {
		t.Errorf("%q and %q, value %v", c.Meta, next.Meta, next.Value(contextKey{}))
	}
	var none *valueContext
	alone := none.With(&l, context.Background(), Known{Meta: []byte("new")})
	if string(alone.Meta) != "new" || alone.Value(contextKey{}) != nil || alone.Err() != nil {
		t.Errorf("%q, value %v", alone.Meta, alone.Value(contextKey{}))
	}
	l.End()
	<-alone.Done()
}

// AfterFunc calls functions once the life has ended, also functions that it gets later, but no function that was stopped before.
func TestAfterFunc(t *testing.T) {
	for _, awaited := range []bool{false, true} {
		var l lifetime
		if awaited {
			l.Done()
		}
		called := make(chan int)
		var stops []func() bool
		for i := range 4 {
			stops = append(stops, l.AfterFunc(func() { called <- i }))
		}
		for _, i := range []int{1, 3, 0} { // in the middle, the newest, the oldest
			if !stops[i]() || stops[i]() {
				t.Errorf("call %d was not stopped once", i)
			}
		}
		l.End()
		l.End()
		if i := wait.Receive(t, "the call at the end", called); i != 2 {
			t.Errorf("call %d was made, which was stopped", i)
		}
		if stops[2]() {
			t.Error("stopped what was called")
		}
		stop := l.AfterFunc(func() { called <- 5 })
		wait.Receive(t, "the call after the end", called)
		if stop() {
			t.Error("stopped what was called")
		}
		<-l.Done()
		if l.Err() == nil || l.Value(contextKey{}) != nil {
			t.Error("not over")
		}
	}
	var unseen lifetime
	unseen.End()
	called := make(chan int)
	stop := unseen.AfterFunc(func() { called <- 0 })
	wait.Receive(t, "the call after an end that nobody waited for", called)
	if stop() {
		t.Error("stopped what was called")
	}
}

// During ends with the life, and with the request, and has its values.
func TestDuring(t *testing.T) {
	request, cancel := context.WithCancel(context.WithValue(context.Background(), contextKey{}, 1))
	defer cancel()
	during(t, "a life whose request never ends", context.WithoutCancel(request), (*lifetime).End)
	during(t, "a life whose request ends", request, (*lifetime).End)
	during(t, "the request", request, func(*lifetime) { cancel() })
	for _, request := range []context.Context{context.Background(), t.Context()} {
		ctx, done := requestContext(new(lifetime), request)
		done()
		if <-ctx.Done(); ctx.Err() == nil {
			t.Error("a context that its caller has ended")
		}
	}
}

func during(t *testing.T, what string, request context.Context, end func(*lifetime)) {
	t.Helper()
	var l lifetime
	ctx, done := requestContext(&l, request)
	defer done()
	if ctx.Err() != nil || ctx.Value(contextKey{}) != 1 {
		t.Errorf("%s: error %v, value %v", what, ctx.Err(), ctx.Value(contextKey{}))
	}
	end(&l)
	wait.Receive(t, "the end of "+what, ctx.Done())
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%s: %v", what, ctx.Err())
	}
}

// BenchmarkCall is what it costs to call a backend for a connection whose end ends the call, beside what package context takes for that.
func BenchmarkCall(b *testing.B) {
	request := context.WithoutCancel(context.Background())
	b.Run("life", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, done := requestContext(new(lifetime), request)
			ctx.(*valueContext).AfterFunc(func() {})()
			done()
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(request)
			stop := context.AfterFunc(new(lifetime), cancel)
			context.AfterFunc(ctx, func() {})()
			stop()
			cancel()
		}
	})
}

// TestAllocations holds the budget of what each call to a backend does.
func TestAllocations(t *testing.T) {
	request := context.WithoutCancel(context.Background())
	if got := testing.AllocsPerRun(100, func() {
		ctx, done := requestContext(new(lifetime), request)
		ctx.(*valueContext).AfterFunc(func() {})()
		done()
	}); got > 12 {
		t.Errorf("%v allocations, at most 12", got)
	}
}
