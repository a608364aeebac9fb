package client

import (
	"slices"
	"sync"

	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/guard"
)

// effectQueue has the waiting effects of one client, and counts the running ones. Any goroutine may use it.
type effectQueue struct {
	// What belongs to the loop: how many effects are not completed yet, and the worker that is held, or is to be held.
	awaited int
	hold    bool
	held    chan struct{} // nil: none

	mu        sync.Mutex
	effects   []effect.Effect
	running   int
	exclusive bool
}

func (q *effectQueue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.running == 0 && len(q.effects) == 0
}

// push reports whether the caller has to start a worker.
func (q *effectQueue) push(e effect.Effect, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.effects = append(q.effects, e)
	if !q.ready(limit) {
		return false
	}
	q.running++
	return true
}

// pushAhead queues e before all others, while an exclusive effect is completed, whose worker takes e next.
func (q *effectQueue) pushAhead(e effect.Effect) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.effects = slices.Insert(q.effects, 0, e)
}

// ready reports whether the first effect may start beside the running ones.
func (q *effectQueue) ready(limit int) bool {
	switch {
	case len(q.effects) == 0:
		return false
	case q.running == 0:
		return true
	}
	return !q.exclusive && q.running < limit && q.effects[0].Traits().Has(effect.Concurrent)
}

// next gives a worker its next effect, or nil to end it, and reports whether it has to start another worker.
func (q *effectQueue) next(limit int) (e effect.Effect, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	if q.running == 0 {
		q.exclusive = false
	}
	if !q.ready(limit) {
		if len(q.effects) == 0 && q.running == 0 {
			q.effects = nil
		}
		return nil, false
	}
	e = q.effects[0]
	q.effects[0] = nil
	q.effects = q.effects[1:]
	q.running++
	q.exclusive = !e.Traits().Has(effect.Concurrent)
	if q.ready(limit) {
		q.running++
		more = true
	}
	return e, more
}

func (q *effectQueue) work(g *workGroup, c worker) {
	g.Workers.Add()
	go func() {
		defer g.Workers.Done()
		growStack()
		for {
			e, more := q.next(g.Concurrency)
			if more {
				q.work(g, c)
			}
			if e == nil {
				return
			}
			// After a panic the queue goes on: it must undo the steps that were done.
			guard.Do(func() { e.Execute(c, false) }, c.Panicked)
			q.complete(g, c, e)
		}
	}()
}

// growStack gives a new goroutine the 8 KiB of stack that handlers with a network call need. A goroutine begins
// with less, and growing copies all frames: for a call of the application's backend that was a sixth of its CPU.
// Here there is one frame to copy.
//
//go:noinline
func growStack() byte {
	var frame [4 << 10]byte
	return frame[len(frame)-zeroIndex-1]
}

// zeroIndex keeps the compiler from removing frame.
var zeroIndex int

// complete waits for the completion if it may start effects: they come before the next one of the queue.
func (q *effectQueue) complete(g *workGroup, c worker, e effect.Effect) {
	t := e.Traits()
	if !t.Has(effect.Completes) {
		return
	}
	d := &completion{group: g, queue: q, session: c.Session(), effect: e}
	if t.Has(effect.Begins) {
		d.done = make(chan struct{})
	}
	if g.Loop.Post(d) && d.done != nil {
		<-d.done
	}
}
