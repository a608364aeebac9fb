package life

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLifeEndsWhatDerivesFromIt(t *testing.T) {
	var l Life
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
	var l Life
	l.End()
	<-l.Done()
	if !errors.Is(l.Err(), context.Canceled) || l.made.Load() != over {
		t.Error("not over")
	}
	ctx, cancel := context.WithCancelCause(&l)
	defer cancel(nil)
	<-ctx.Done()
}

func TestLifeIsMadeOnce(t *testing.T) {
	for range 100 {
		var (
			l  Life
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
	var l Life
	node, stop := context.WithCancel(context.Background())
	c := NewContext(&l, node, context.WithValue(context.Background(), contextKey{}, 1), []byte("m"))
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
	var l Life
	c := NewContext(&l, context.Background(), context.WithValue(context.Background(), contextKey{}, 1), []byte("old"))
	next := c.WithMeta(&l, context.Background(), []byte("new"))
	if string(c.Meta) != "old" || string(next.Meta) != "new" || next.Value(contextKey{}) != 1 {
		t.Errorf("%q and %q, value %v", c.Meta, next.Meta, next.Value(contextKey{}))
	}
	var none *Context
	alone := none.WithMeta(&l, context.Background(), []byte("new"))
	if string(alone.Meta) != "new" || alone.Value(contextKey{}) != nil || alone.Err() != nil {
		t.Errorf("%q, value %v", alone.Meta, alone.Value(contextKey{}))
	}
	l.End()
	<-alone.Done()
}
