package route

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// lock is a mutex for holders that call a broker, which takes long. Those who wait get it in their order, and give up
// when their context ends: otherwise a client that has gone would wait for a broker that does not answer. There is one
// lock for each channel, so it is small.
type lock struct{ queue atomic.Pointer[queue] } // nil: the lock is free

// queue has the goroutines that wait for a lock.
type queue struct {
	mu      sync.Mutex
	waiting []chan struct{} // closed when the lock is handed over
	over    bool            // the lock is free again, and a new queue follows
}

// alone is the queue of a held lock without waiting goroutines.
var alone = new(queue)

func (l *lock) tryLock() bool { return l.queue.CompareAndSwap(nil, alone) }

// lock returns the error of ctx if ctx ends before the lock is handed over.
func (l *lock) lock(ctx context.Context) error {
	if l.tryLock() {
		return nil
	}
	turn := make(chan struct{})
	for !l.tryLock() {
		q := l.queue.Load()
		if q == alone {
			q = new(queue)
			if !l.queue.CompareAndSwap(alone, q) {
				continue
			}
		}
		if q == nil || !q.enter(turn) {
			continue
		}
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			if !q.leave(turn) { // the lock was handed over meanwhile
				l.unlock()
			}
			return ctx.Err()
		}
	}
	return nil
}

func (q *queue) enter(turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return false
	}
	q.waiting = append(q.waiting, turn)
	return true
}

func (q *queue) leave(turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, turn)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

func (l *lock) unlock() {
	if l.queue.CompareAndSwap(alone, nil) {
		return
	}
	q := l.queue.Load()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		close(q.waiting[0])
		q.waiting = slices.Delete(q.waiting, 0, 1)
		return
	}
	q.over = true
	l.queue.Store(nil)
}
