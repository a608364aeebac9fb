// Package groupcommit gathers the writes of many callers, so that one transaction writes them all.
package groupcommit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrClosed is the error of jobs that were not begun when the lane was closed.
var ErrClosed = errors.New("postgres: closed")

// ErrFull is the error of jobs that find too many others waiting.
var ErrFull = errors.New("postgres: too much waits to be written")

// maxWaiting bounds the jobs of a lane that wait.
const maxWaiting = 100_000

// Job is one piece of work, of a Group. After waiting for the group, the caller may look at the outcome if Done returns true.
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

// NewGroup returns a group of n jobs.
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

// Done reports whether the job has ended. If it has not, it is not begun any more, unless it was.
func (j *Job) Done() bool {
	return !j.state.CompareAndSwap(waiting, abandoned) && j.state.Load() == done
}

// Item is a pointer to a type that contains a Job.
type Item interface {
	comparable
	CommitJob() *Job
}

// Lane writes items in their order, a batch at a time. The fields are constant once it is used.
type Lane[T Item] struct {
	// Write writes a batch and sets the outcome of each item.
	Write func(batch []T)
	// Fail sets an error as the outcome of an item.
	Fail func(item T, err error)
	// Fits reports whether an item may join a batch.
	Fits func(batch []T, item T) bool
	// Go runs a function on a goroutine; it returns false if there are no more goroutines.
	Go func(func()) bool

	mu      sync.Mutex
	items   []T
	running bool
	closed  bool
}

// Add hands over items. Each of them ends, in any case.
func (l *Lane[T]) Add(items ...T) {
	l.mu.Lock()
	var refused error
	switch {
	case l.closed:
		refused = ErrClosed
	case len(l.items)+len(items) > maxWaiting:
		refused = ErrFull
	default:
		l.items = append(l.items, items...)
		if !l.running {
			l.running = l.Go(l.run)
		}
	}
	l.mu.Unlock()
	if refused != nil {
		l.refuse(items, refused)
	}
}

func (l *Lane[T]) refuse(items []T, err error) {
	for _, item := range items {
		l.Fail(item, err)
		item.CommitJob().Finish()
	}
}

// run writes batches until no items are left.
func (l *Lane[T]) run() {
	for {
		batch := l.take()
		if len(batch) == 0 {
			return
		}
		l.Write(batch)
		for _, item := range batch {
			item.CommitJob().Finish()
		}
	}
}

// take takes the next batch. It leaves out abandoned items.
func (l *Lane[T]) take() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch []T
	n := 0
	for _, item := range l.items {
		if len(batch) > 0 && !l.Fits(batch, item) {
			break
		}
		n++
		if item.CommitJob().state.CompareAndSwap(waiting, taken) {
			batch = append(batch, item)
		}
	}
	if n == len(l.items) {
		l.items = nil
	} else {
		l.items = l.items[n:]
	}
	if len(batch) == 0 {
		l.running = false
	}
	return batch
}

// Close makes waiting items fail, and all later ones. The batch under way is not affected.
func (l *Lane[T]) Close() {
	l.mu.Lock()
	l.closed = true
	items := l.items
	l.items = nil
	l.mu.Unlock()
	for _, item := range items {
		if item.CommitJob().state.CompareAndSwap(waiting, taken) {
			l.refuse([]T{item}, ErrClosed)
		}
	}
}
