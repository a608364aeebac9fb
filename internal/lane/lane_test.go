package lane

import (
	"sync"
	"testing"

	"github.com/gyrohq/gyro/internal/session"
)

// take has a worker take the next effect.
func take(t *testing.T, l *Lane, most int, want session.Effect, more bool) {
	t.Helper()
	if e, m := l.Next(most); e != want || m != more {
		t.Errorf("got %T and %v, want %T and %v", e, m, want, more)
	}
}

func TestOneAfterTheOther(t *testing.T) {
	var l Lane
	a, b, c := &session.Subscribing{}, &session.RPC{}, &session.RPC{}
	if !l.Push(a, 1) || l.Push(b, 1) || l.Push(c, 1) || l.Idle() {
		t.Error("one worker is needed")
	}
	take(t, &l, 1, a, false)
	take(t, &l, 1, b, false)
	d := &session.Attach{}
	l.PushAhead(d)
	take(t, &l, 1, d, false)
	take(t, &l, 1, c, false)
	take(t, &l, 1, nil, false)
	if !l.Idle() || !(*Lane)(nil).Idle() {
		t.Error("the lane is not idle")
	}
}

// Only what is concurrent runs side by side.
func TestSideBySide(t *testing.T) {
	var l Lane
	rpcs := []session.Effect{&session.RPC{}, &session.History{}, &session.Publish{}}
	for i, e := range rpcs {
		if start := l.Push(e, 2); start != (i < 2) {
			t.Errorf("worker for effect %d: %v", i, start)
		}
	}
	exclusive := &session.Detach{}
	l.Push(exclusive, 2)
	take(t, &l, 2, rpcs[0], false) // two workers run, as many as may
	take(t, &l, 2, rpcs[1], false)
	take(t, &l, 2, rpcs[2], false)
	take(t, &l, 2, nil, false) // the other one ends
	take(t, &l, 2, exclusive, false)
	if l.Push(&session.RPC{}, 2) {
		t.Error("beside an exclusive effect")
	}
}

func TestTally(t *testing.T) {
	var tally Tally
	tally.Wait()
	var wg sync.WaitGroup
	for range 100 {
		tally.Add()
		wg.Go(func() {
			tally.Add() // rises again
			tally.Done()
			tally.Done()
		})
	}
	tally.Wait()
	wg.Wait()
	if tally.n != 0 {
		t.Error(tally.n)
	}
}
