// Package eventqueue keeps events until iterators take them.
package eventqueue

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Life names the calls that end a Queue, besides its own End.
type Life uint8

// Lives of queues.
const (
	Session Life = iota // Finish and End of its Set
	Source              // End of its Set
	Sources             // End of one of its Sets, for all queues
)

// Queue keeps events for one iterator. Any goroutine may call its methods, and one iterates.
type Queue[E any] struct {
	Name    string // of the channel; may be empty
	limit   int
	life    Life
	fold    func(left []E, e E) []E
	crowd   *Crowd[E]
	crowded bool // it is in crowd
	handed  atomic.Uint64

	mu      sync.Mutex
	more    sync.Cond     // signals that there are events, or will be none
	room    chan struct{} // closed when events are taken; nil without a waiter
	events  []E
	left    []E  // stand for events that were left out after these events
	skips   bool // further events are left out
	skipped bool // that has happened before
	ended   bool
}

// New returns a queue that should not have more events than limit. fold, on the goroutine that adds an event, adds it to
// the few that stand for left out events.
func New[E any](name string, limit int, life Life, c *Crowd[E], fold func(left []E, e E) []E) *Queue[E] {
	q := &Queue[E]{Name: name, limit: limit, life: life, crowd: c, fold: fold}
	q.more.L = &q.mu
	return q
}

func (q *Queue[E]) push(e E) {
	q.mu.Lock()
	switch {
	case q.ended:
	case q.skips:
		q.left = q.fold(q.left, e)
	default:
		q.events = append(q.events, e)
	}
	full := q.full()
	q.mu.Unlock()
	q.more.Signal()
	if full && !q.crowded {
		q.crowded = true
		q.crowd.queues = append(q.crowd.queues, q)
	}
}

func (q *Queue[E]) full() bool { return !q.ended && !q.skips && len(q.events) > q.limit }

// Excess reports whether the queue has more events than so many times its limit.
func (q *Queue[E]) Excess(times int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full() && len(q.events) > times*q.limit
}

// Room returns a channel that is closed when the iterator has taken events, or ends; nil if there is room, or further
// events are left out.
func (q *Queue[E]) Room() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.full() {
		return nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room
}

// Handed counts the events that the iterator has handed over.
func (q *Queue[E]) Handed() uint64 { return q.handed.Load() }

// Skip makes the queue leave out further events until the iterator takes some, if it has more than it should. first: it
// has never done so.
func (q *Queue[E]) Skip() (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.full() {
		return false
	}
	first = !q.skipped
	q.skips, q.skipped = true, true
	q.taken()
	return first
}

// Finish adds a last event, and ends the queue.
func (q *Queue[E]) Finish(e E) {
	q.push(e)
	q.End()
}

// End ends the iterator after the events that it has.
func (q *Queue[E]) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.taken()
	q.more.Signal()
}

func (q *Queue[E]) taken() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// take waits for events; none: it is the end.
func (q *Queue[E]) take() []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.ended { // events are left out only while others wait
		q.more.Wait()
	}
	events := append(q.events, q.left...)
	q.events, q.left, q.skips = nil, nil, false
	q.taken()
	return events
}

// Each iterates over the events, and calls drop when that ends.
func (q *Queue[E]) Each(drop func()) iter.Seq[E] {
	return func(yield func(E) bool) {
		defer drop()
		for events := q.take(); len(events) > 0; events = q.take() {
			for _, e := range events {
				q.handed.Add(1)
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Set is a set of queues that get the same events. One goroutine at a time may use a Crowd and its sets.
type Set[E any] struct{ queues []*Queue[E] }

// Add adds a queue.
func (s *Set[E]) Add(q *Queue[E]) { s.queues = append(s.queues, q) }

// Remove removes a queue.
func (s *Set[E]) Remove(q *Queue[E]) {
	if at := slices.Index(s.queues, q); at >= 0 {
		s.queues = slices.Delete(s.queues, at, at+1)
	}
}

// Push adds an event to all queues.
func (s *Set[E]) Push(e E) {
	for _, q := range s.queues {
		q.push(e)
	}
}

// Finish adds a last event to the queues of a Session, and forgets them.
func (s *Set[E]) Finish(e E) {
	s.queues = slices.DeleteFunc(s.queues, func(q *Queue[E]) bool {
		if q.life == Session {
			q.Finish(e)
		}
		return q.life == Session
	})
}

// End ends and forgets the queues. Queues of several sets go on unless all is true.
func (s *Set[E]) End(all bool) {
	for _, q := range s.queues {
		if all || q.life != Sources {
			q.End()
		}
	}
	s.queues = nil
}

// Crowd is a list of queues that have more events than they should.
type Crowd[E any] struct{ queues []*Queue[E] }

// Take returns the queues that got too many events since it was called last.
func (c *Crowd[E]) Take() []*Queue[E] {
	queues := c.queues
	c.queues = nil
	for _, q := range queues {
		q.crowded = false
	}
	return queues
}
