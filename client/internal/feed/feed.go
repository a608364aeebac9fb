// Package feed keeps events until iterators take them.
package feed

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Life names the calls that end a Feed, besides its own End.
type Life uint8

// Lives of feeds.
const (
	Session Life = iota // Finish and End of its Set
	Source              // End of its Set
	Sources             // End of one of its Sets, for all feeds
)

// Feed keeps events for one iterator. Any goroutine may call its methods, and one iterates.
type Feed[E any] struct {
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

// New returns a feed that should not have more events than limit. fold adds an event that is left out to the few that stand for such
// events; the goroutine that adds the event calls it.
func New[E any](name string, limit int, life Life, c *Crowd[E], fold func(left []E, e E) []E) *Feed[E] {
	f := &Feed[E]{Name: name, limit: limit, life: life, crowd: c, fold: fold}
	f.more.L = &f.mu
	return f
}

// push adds an event, unless the feed has ended.
func (f *Feed[E]) push(e E) {
	f.mu.Lock()
	switch {
	case f.ended:
	case f.skips:
		f.left = f.fold(f.left, e)
	default:
		f.events = append(f.events, e)
	}
	full := f.full()
	f.mu.Unlock()
	f.more.Signal()
	if full && !f.crowded {
		f.crowded = true
		f.crowd.feeds = append(f.crowd.feeds, f)
	}
}

func (f *Feed[E]) full() bool { return !f.ended && !f.skips && len(f.events) > f.limit }

// Excess reports whether the feed has more events than so many times its limit.
func (f *Feed[E]) Excess(times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.full() && len(f.events) > times*f.limit
}

// Room returns a channel that is closed when the iterator has taken events, or ends; nil if it has no more than it should, or further ones
// are left out.
func (f *Feed[E]) Room() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.full() {
		return nil
	}
	if f.room == nil {
		f.room = make(chan struct{})
	}
	return f.room
}

// Handed counts the events that the iterator has handed over.
func (f *Feed[E]) Handed() uint64 { return f.handed.Load() }

// Skip makes the feed leave out further events until the iterator takes some, if it has more than it should. It reports
// whether the feed begins to leave out events for the first time.
func (f *Feed[E]) Skip() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.full() {
		return false
	}
	first = !f.skipped
	f.skips, f.skipped = true, true
	f.taken()
	return first
}

// Finish adds a last event, and ends the feed.
func (f *Feed[E]) Finish(e E) {
	f.push(e)
	f.End()
}

// End ends the iterator after the events that it has.
func (f *Feed[E]) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.taken()
	f.more.Signal()
}

// taken wakes the caller of Room: the feed has room.
func (f *Feed[E]) taken() {
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// take waits for events and returns them; none if it is the end.
func (f *Feed[E]) take() []E {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.events) == 0 && !f.ended { // events are left out only while others wait
		f.more.Wait()
	}
	events := append(f.events, f.left...)
	f.events, f.left, f.skips = nil, nil, false
	f.taken()
	return events
}

// Each iterates over the events, and calls drop when that ends.
func (f *Feed[E]) Each(drop func()) iter.Seq[E] {
	return func(yield func(E) bool) {
		defer drop()
		for events := f.take(); len(events) > 0; events = f.take() {
			for _, e := range events {
				f.handed.Add(1)
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Set is a set of feeds that get the same events. One goroutine at a time may use the sets of a Crowd, and that.
type Set[E any] struct{ feeds []*Feed[E] }

// Add adds a feed.
func (s *Set[E]) Add(f *Feed[E]) { s.feeds = append(s.feeds, f) }

// Remove removes a feed.
func (s *Set[E]) Remove(f *Feed[E]) {
	if at := slices.Index(s.feeds, f); at >= 0 {
		s.feeds = slices.Delete(s.feeds, at, at+1)
	}
}

// Push adds an event to all feeds.
func (s *Set[E]) Push(e E) {
	for _, f := range s.feeds {
		f.push(e)
	}
}

// Finish adds a last event to the feeds of a Session, ends them, and forgets them.
func (s *Set[E]) Finish(e E) {
	s.feeds = slices.DeleteFunc(s.feeds, func(f *Feed[E]) bool {
		if f.life == Session {
			f.Finish(e)
		}
		return f.life == Session
	})
}

// End ends the feeds, and forgets all of them. Feeds of several sets go on unless all is true.
func (s *Set[E]) End(all bool) {
	for _, f := range s.feeds {
		if all || f.life != Sources {
			f.End()
		}
	}
	s.feeds = nil
}

// Crowd is a list of feeds that have more events than they should.
type Crowd[E any] struct{ feeds []*Feed[E] }

// Take returns the feeds that got too many events since it was called last.
func (c *Crowd[E]) Take() []*Feed[E] {
	feeds := c.feeds
	c.feeds = nil
	for _, f := range feeds {
		f.crowded = false
	}
	return feeds
}
