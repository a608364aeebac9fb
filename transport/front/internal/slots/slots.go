// Package slots bounds how many tasks compute at a time. There may be many more, because a task that waits for another
// party needs no slot.
package slots

import (
	"container/list"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Slots is a number of slots: a task computes only while it has one. Any goroutine may use it.
type Slots struct {
	count     int
	limit     int
	timeSlice time.Duration
	tooMany   error

	mu        sync.Mutex
	queued    []*Task     // have not begun; the oldest first
	ready     []*Task     // wait for a slot, which they get before queued ones
	computing []*Task     // have a slot
	waiting   list.List   // of *Task that wait for another party; the one that waits longest is first
	timer     *time.Timer // takes slots back; nil: no task waits for one
}

// Task has a goroutine from its turn on.
type Task struct {
	all  *Slots
	run  func()
	turn chan struct{} // has an element once the task may go on

	// under all.mu
	began   time.Time     // of computing
	element *list.Element // in all.waiting; nil: it does not wait
	err     error         // why it must end
}

// New returns count slots. A task that computes for longer than timeSlice loses its slot: it waits for something else.
// If more than limit tasks wait for another party, the one that has waited longest ends with the error tooMany.
func New(count, limit int, timeSlice time.Duration, tooMany error) *Slots {
	return &Slots{count: count, limit: limit, timeSlice: timeSlice, tooMany: tooMany}
}

// Start makes a new goroutine call run when it is the task's turn. run calls Done at its end.
func (s *Slots) Start(t *Task, run func()) {
	t.all, t.run, t.turn = s, run, make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queued = append(s.queued, t)
	s.fill()
}

// Len returns the number of tasks that have not ended.
func (s *Slots) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len() + len(s.computing) + len(s.ready) + len(s.queued)
}

// fill gives free slots to tasks. The caller holds the lock.
func (s *Slots) fill() {
	for len(s.computing) < s.count {
		var t *Task
		switch {
		case len(s.ready) > 0:
			t, s.ready = first(s.ready)
			t.turn <- struct{}{}
		case len(s.queued) > 0:
			t, s.queued = first(s.queued)
			go func() {
				runtime.Gosched()
				t.run()
			}()
		default:
			return
		}
		t.began = time.Now()
		s.computing = append(s.computing, t)
	}
	if s.timer == nil && len(s.ready)+len(s.queued) > 0 {
		s.timer = time.AfterFunc(s.timeSlice, s.reclaim)
	}
}

func first(list []*Task) (*Task, []*Task) {
	t := list[0]
	list[0] = nil
	if list = list[1:]; len(list) == 0 {
		list = nil
	}
	return t, list
}

func (s *Slots) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	since := time.Now().Add(-s.timeSlice)
	s.computing = slices.DeleteFunc(s.computing, func(t *Task) bool { return t.began.Before(since) })
	s.fill()
}

func (s *Slots) release(t *Task) {
	s.computing = slices.DeleteFunc(s.computing, func(other *Task) bool { return other == t })
}

// Done ends the task.
func (t *Task) Done() {
	s := t.all
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(t)
	s.fill()
}

// Resume lets t go on if it waits. With an error, t ends now or at its next step.
func (t *Task) Resume(err error) {
	s := t.all
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake(t, err)
	s.fill()
}

// wake is Resume for callers that hold the lock and call fill.
func (s *Slots) wake(t *Task, err error) {
	if t.err == nil {
		t.err = err
	}
	if t.element != nil {
		s.waiting.Remove(t.element)
		t.element = nil
		s.ready = append(s.ready, t)
	}
}

// Err tells why the task must end, if it must.
func (t *Task) Err() error {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return t.err
}

// Wait gives up the slot, calls begin, and waits until Resume was called and there is a slot again.
func (t *Task) Wait(begin func()) error {
	s := t.all
	s.mu.Lock()
	if t.err != nil {
		s.mu.Unlock()
		return t.err
	}
	s.release(t)
	t.element = s.waiting.PushBack(t)
	if s.waiting.Len() > s.limit {
		s.wake(s.waiting.Front().Value.(*Task), s.tooMany)
	}
	s.fill()
	s.mu.Unlock()
	begin()
	<-t.turn
	runtime.Gosched()
	return t.Err()
}
