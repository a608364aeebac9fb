package enginekit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gyrohq/gyro/quiet"
)

// Every calls do once per interval, at a beat of the process (quiet.UntilBeat), until ctx ends. A call that takes longer is
// followed by the next one at once.
func Every(ctx context.Context, interval time.Duration, do func()) {
	timer := time.NewTimer(quiet.UntilBeat(interval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		timer.Reset(quiet.UntilBeat(interval))
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
