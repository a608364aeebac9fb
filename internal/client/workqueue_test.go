package client

import (
	"sync"
	"testing"

	"github.com/gyrohq/gyro/internal/effect"
)

// take has a worker take the next effect.
func take(t *testing.T, q *effectQueue, most int, want effect.Effect, more bool) {
	t.Helper()
	if e, m := q.next(most); e != want || m != more {
		t.Errorf("got %T and %v, want %T and %v", e, m, want, more)
	}
}

func TestOneAfterTheOther(t *testing.T) {
	var q effectQueue
	a, b, c := &effect.Subscribing{}, &effect.RPC{}, &effect.RPC{}
	if !q.push(a, 1) || q.push(b, 1) || q.push(c, 1) || q.idle() {
		t.Error("one worker is needed")
	}
	take(t, &q, 1, a, false)
	take(t, &q, 1, b, false)
	d := &effect.Attach{}
	q.pushAhead(d)
	take(t, &q, 1, d, false)
	take(t, &q, 1, c, false)
	take(t, &q, 1, nil, false)
	if !q.idle() {
		t.Error("the queue is not idle")
	}
}

// Only what is concurrent runs side by side.
func TestSideBySide(t *testing.T) {
	var q effectQueue
	rpcs := []effect.Effect{&effect.RPC{}, &effect.History{}, &effect.Publish{}}
	for i, e := range rpcs {
		if start := q.push(e, 2); start != (i < 2) {
			t.Errorf("worker for effect %d: %v", i, start)
		}
	}
	exclusive := &effect.Detach{}
	q.push(exclusive, 2)
	take(t, &q, 2, rpcs[0], false) // two workers run, as many as may
	take(t, &q, 2, rpcs[1], false)
	take(t, &q, 2, rpcs[2], false)
	take(t, &q, 2, nil, false) // the other one ends
	take(t, &q, 2, exclusive, false)
	if q.push(&effect.RPC{}, 2) {
		t.Error("beside an exclusive effect")
	}
}

func TestTally(t *testing.T) {
	var tally tally
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
