package engines

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// slots bounds how many calls are in progress. Waiting callers get slots in the order of their arrival.
type slots struct {
	limit    int           // < 1: none
	patience time.Duration // the longest wait

	mu      sync.Mutex
	used    int
	waiting list.List // of chan struct{}, closed when the caller that waits gets its slot
}

// acquire waits for a slot. Its error is the error of ctx, or wraps protocol.ErrorTooManyRequests if there was none
// within patience.
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
	granted := make(chan struct{})
	e := s.waiting.PushBack(granted)
	s.mu.Unlock()
	return s.wait(ctx, e, granted)
}

func (s *slots) wait(ctx context.Context, e *list.Element, granted <-chan struct{}) error {
	timer := time.NewTimer(s.patience)
	defer timer.Stop()
	var err error
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("engine: no slot among %d calls in %v: %w", s.limit, s.patience, protocol.ErrorTooManyRequests)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-granted: // too late
		s.pass()
	default:
		s.waiting.Remove(e)
	}
	return err
}

func (s *slots) release() {
	if s.limit < 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass gives a slot to the caller that has waited longest. mu is held.
func (s *slots) pass() {
	e := s.waiting.Front()
	if e == nil {
		s.used--
		return
	}
	close(s.waiting.Remove(e).(chan struct{}))
}
