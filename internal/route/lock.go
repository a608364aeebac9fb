package route

import (
	"context"
	"sync/atomic"
)

// lock is a mutex for holders that call a broker, which takes long: those who wait give up when their context ends.
// Otherwise a client that has gone would wait for a broker that does not answer. There is one for each channel, so it
// is small.
type lock struct{ holder atomic.Pointer[holder] } // nil: the lock is free

// holder has the lock. free, if somebody waits for it, is closed by unlock.
type holder struct{ free chan struct{} }

var unwanted = new(holder) // nobody waits

func (l *lock) tryLock() bool { return l.holder.CompareAndSwap(nil, unwanted) }

// lock returns the error of ctx if ctx ends before the lock is free.
func (l *lock) lock(ctx context.Context) error {
	for !l.tryLock() {
		h := l.holder.Load()
		if h == unwanted {
			h = &holder{make(chan struct{})}
			if !l.holder.CompareAndSwap(unwanted, h) {
				continue
			}
		}
		if h == nil {
			continue
		}
		select {
		case <-h.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l *lock) unlock() {
	if h := l.holder.Swap(nil); h != unwanted {
		close(h.free)
	}
}
