package route

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestLockInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock
		var order []int
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		if err := l.lock(ctx); err != nil || l.tryLock() {
			t.Fatal(err)
		}
		for i := range 5 {
			all.Go(func() {
				waits := t.Context()
				if i == 2 {
					waits = ctx
				}
				err := l.lock(waits)
				if i == 2 {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				order = append(order, i)
				l.unlock()
			})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		l.unlock()
		all.Wait()
		if len(order) != 4 || order[0] != 0 || order[1] != 1 || order[2] != 3 || order[3] != 4 {
			t.Errorf("order %v", order)
		}
		if !l.tryLock() {
			t.Error("the lock is not free")
		}
	})
}

// One goroutine at a time has the lock, whoever gives up.
func TestLockConcurrently(t *testing.T) {
	var l lock
	var all sync.WaitGroup
	n := 0
	for i := range 8 {
		all.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 0 {
					go cancel()
				}
				if l.lock(ctx) == nil {
					n++
					l.unlock()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n < 8000 || !l.tryLock() {
		t.Errorf("%d times", n)
	}
}
