// Package groupcommit gathers the writes of many callers, so that one transaction writes them all.
package groupcommit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrClosed is the error of jobs that were not begun when the queue was closed.
var ErrClosed = errors.New("postgres: closed")

// ErrFull is the error of jobs that find too many others waiting.
var ErrFull = errors.New("postgres: too much waits to be written")

const maxWaiting = 100_000

// Job is one piece of work, of a Group. After Wait, the caller may look at the outcome if Done returns true.
type Job struct {
	state atomic.Int32
	group *Group
}

const (
	waiting int32 = iota
	taken
	done
	abandoned
)

// Group is a number of jobs that a caller waits for.
type Group struct {
	left  atomic.Int64
	ended chan struct{}
}

func NewGroup(n int) *Group {
	g := &Group{ended: make(chan struct{})}
	g.left.Store(int64(n))
	return g
}

// Join makes j a job of the group.
func (g *Group) Join(j *Job) { j.group = g }

// Wait waits until all jobs have ended, or ctx has.
func (g *Group) Wait(ctx context.Context) error {
	select {
	case <-g.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Finish ends a job. Its outcome has been set.
func (j *Job) Finish() {
	j.state.Store(done)
	if j.group.left.Add(-1) == 0 {
		close(j.group.ended)
	}
}

// Done reports whether the job has ended. If not, it is not begun any more, unless it was.
func (j *Job) Done() bool {
	return !j.state.CompareAndSwap(waiting, abandoned) && j.state.Load() == done
}

// Item is a pointer to a type that contains a Job.
type Item interface {
	comparable
	CommitJob() *Job
}

// Queue writes items in their order, a batch at a time. The fields are constant.
type Queue[T Item] struct {
	// Write writes a batch and sets the outcome of each item.
	Write func(batch []T)
	Fail  func(item T, err error)
	Fits  func(batch []T, item T) bool
	// Go runs a function on a goroutine; it returns false if there are no more goroutines.
	Go func(func()) bool

	mu      sync.Mutex
	items   []T
	running bool
	closed  bool
}

// Add hands over items. Each of them ends, in any case.
func (q *Queue[T]) Add(items ...T) {
	q.mu.Lock()
	var refused error
	switch {
	case q.closed:
		refused = ErrClosed
	case len(q.items)+len(items) > maxWaiting:
		refused = ErrFull
	default:
		q.items = append(q.items, items...)
		if !q.running {
			q.running = q.Go(q.run)
		}
	}
	q.mu.Unlock()
	if refused != nil {
		q.refuse(items, refused)
	}
}

func (q *Queue[T]) refuse(items []T, err error) {
	for _, item := range items {
		q.Fail(item, err)
		item.CommitJob().Finish()
	}
}

func (q *Queue[T]) run() {
	for {
		batch := q.take()
		if len(batch) == 0 {
			return
		}
		q.Write(batch)
		for _, item := range batch {
			item.CommitJob().Finish()
		}
	}
}

func (q *Queue[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch []T
	n := 0
	for _, item := range q.items {
		if len(batch) > 0 && !q.Fits(batch, item) {
			break
		}
		n++
		if item.CommitJob().state.CompareAndSwap(waiting, taken) {
			batch = append(batch, item)
		}
	}
	if n == len(q.items) {
		q.items = nil
	} else {
		q.items = q.items[n:]
	}
	if len(batch) == 0 {
		q.running = false
	}
	return batch
}

// Close makes waiting items fail, and all later ones. The batch under way goes on.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	items := q.items
	q.items = nil
	q.mu.Unlock()
	for _, item := range items {
		if item.CommitJob().state.CompareAndSwap(waiting, taken) {
			q.refuse([]T{item}, ErrClosed)
		}
	}
}
