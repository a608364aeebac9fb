package gate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// slots bound how many calls are in progress. Those who wait get a slot in the
// order in which they came.
type slots struct {
	limit    int           // < 1: none
	patience time.Duration // the longest wait

	mu         sync.Mutex
	used       int
	head, tail *waiter
}

// waiter is an element of the queue, or has been granted a slot.
type waiter struct {
	prev, next *waiter
	granted    chan struct{}
}

// acquire waits for a slot. Its error is that of ctx, or wraps
// protocol.ErrorTooManyRequests when patience is at its end.
func (s *slots) acquire(ctx context.Context) error {
	if s.limit < 1 {
		return nil
	}
	s.mu.Lock()
	if s.used < s.limit {
		s.used++
		s.mu.Unlock()
		return nil
	}
	w := &waiter{prev: s.tail, granted: make(chan struct{})}
	if s.tail == nil {
		s.head = w
	} else {
		s.tail.next = w
	}
	s.tail = w
	s.mu.Unlock()
	return s.wait(ctx, w)
}

func (s *slots) wait(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("engine: no slot among %d calls in %v: %w", s.limit, s.patience, protocol.ErrorTooManyRequests)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.granted: // too late: it goes on to the next
		s.pass()
	default:
		s.remove(w)
	}
	return err
}

// release gives a slot back.
func (s *slots) release() {
	if s.limit < 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass hands a slot to the next in the queue. mu is held.
func (s *slots) pass() {
	w := s.head
	if w == nil {
		s.used--
		return
	}
	s.remove(w)
	close(w.granted)
}

func (s *slots) remove(w *waiter) {
	if w.prev == nil {
		s.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		s.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
}
