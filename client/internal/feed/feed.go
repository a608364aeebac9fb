// Package feed keeps events until iterators take them.
package feed

import (
	"iter"
	"slices"
	"sync"
)

// Feed keeps events for one iterator. Any goroutine may call its methods, and one iterates.
type Feed[E any] struct {
	limit   int
	crowd   *Crowd[E]
	wide    bool
	crowded bool // it is in crowd

	mu     sync.Mutex
	more   sync.Cond     // signals that there are events, or will be none
	room   chan struct{} // closed when events are taken; nil: nobody waits for that
	events []E
	ended  bool
}

// New returns a feed that should not have more events than limit. If it is wide, the end of one Set does not end it.
func New[E any](limit int, wide bool, c *Crowd[E]) *Feed[E] {
	f := &Feed[E]{limit: limit, wide: wide, crowd: c}
	f.more.L = &f.mu
	return f
}

// push adds an event, unless the feed has ended.
func (f *Feed[E]) push(e E) {
	f.mu.Lock()
	if !f.ended {
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

func (f *Feed[E]) full() bool { return !f.ended && len(f.events) > f.limit }

// Room returns what is closed when the iterator has taken events, or ends; nil if it has no more than it should.
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

// End has the iterator end after the events that it has.
func (f *Feed[E]) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.taken()
	f.more.Signal()
}

// taken tells who waits that the feed has room.
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
	for len(f.events) == 0 && !f.ended {
		f.more.Wait()
	}
	events := f.events
	f.events = nil
	f.taken()
	return events
}

// Each iterates over the events, and calls drop when that ends.
func (f *Feed[E]) Each(drop func()) iter.Seq[E] {
	return func(yield func(E) bool) {
		defer drop()
		for events := f.take(); len(events) > 0; events = f.take() {
			for _, e := range events {
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

// End ends the feeds, of wide ones only if all is true, and forgets them.
func (s *Set[E]) End(all bool) {
	for _, f := range s.feeds {
		if all || !f.wide {
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
