package enginekit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Every calls do once per interval until ctx ends, for the first time after one interval. A call that takes longer is
// followed by the next one at once.
func Every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		do()
	}
}

// AtOnce calls do for all elements at once, and joins the errors in the order of the list.
func AtOnce[T any](list []T, do func(T) error) error {
	failures := make([]error, len(list))
	var group sync.WaitGroup
	for i, element := range list {
		group.Go(func() { failures[i] = do(element) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// Signal sends to a channel that has room for one element, unless that is there. It never waits.
func Signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
