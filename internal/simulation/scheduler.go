package simulation

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// scheduler decides what happens next. It runs in a bubble of testing/synctest, in which time passes only while every
// goroutine waits. Nodes and clients run with their own goroutines and timers, but whatever leaves them comes to the
// scheduler as a note, and it makes one event at a time: then it waits until all goroutines wait, takes the notes in
// an order that does not depend on the goroutines, and goes on. So a run depends on its seed alone.
type scheduler struct {
	begin time.Time
	queue events
	count uint64
	wake  chan struct{}

	mu    sync.Mutex
	notes []note
}

// note is something that a node or a client did. Notes of the same key come from one goroutine at a time.
type note struct {
	key string
	do  func()
}

// event is something that the scheduler will do.
type event struct {
	at    time.Duration
	key   string
	count uint64
	do    func()
}

func newScheduler() *scheduler {
	return &scheduler{begin: time.Now(), wake: make(chan struct{}, 1)}
}

// now is the time since the begin of the run.
func (s *scheduler) now() time.Duration { return time.Since(s.begin) }

// tell hands a note to the scheduler, which calls do while all goroutines wait. Any goroutine may call tell.
func (s *scheduler) tell(key string, do func()) {
	s.mu.Lock()
	s.notes = append(s.notes, note{key, do})
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// after makes an event. Only events and notes call it. Events of one moment come in the order of their keys.
func (s *scheduler) after(d time.Duration, key string, do func()) {
	s.count++
	heap.Push(&s.queue, event{s.now() + d, key, s.count, do})
}

// run makes events until the time since the begin is end.
func (s *scheduler) run(end time.Duration) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		if s.take() {
			continue
		}
		now := s.now()
		if now >= end {
			return
		}
		next := end
		if len(s.queue) > 0 {
			next = min(next, s.queue[0].at)
		}
		if next <= now {
			heap.Pop(&s.queue).(event).do()
			continue
		}
		timer.Reset(next - now)
		select {
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// take reports whether there were notes.
func (s *scheduler) take() bool {
	s.mu.Lock()
	notes := s.notes
	s.notes = nil
	s.mu.Unlock()
	slices.SortStableFunc(notes, func(a, b note) int { return cmp.Compare(a.key, b.key) })
	for _, n := range notes {
		n.do()
	}
	return len(notes) > 0
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].key, e[j].key), cmp.Compare(e[i].count, e[j].count)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}
