package enginekit

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/internal/random"
)

// Backoff is a series of pauses: from Min on, each is twice as long as the one before, up to Max.
type Backoff struct{ Min, Max time.Duration }

// Pause returns the pause after an attempt. The first has number 0.
func (b Backoff) Pause(attempt int) time.Duration {
	pause := b.Min
	for ; attempt > 0 && pause < b.Max; attempt-- {
		pause *= 2
	}
	return min(pause, b.Max)
}

// Jitter returns from half of d to d. Nodes that fail together do not try again together.
func Jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d/2 + random.N(d/2)
}

// ConnectPause is for attempts to connect: 100 ms after number 0, then twice as long each time, at most 2 s. Half of it
// is random.
func ConnectPause(attempt int) time.Duration {
	return Jitter(Backoff{Min: 100 * time.Millisecond, Max: 2 * time.Second}.Pause(attempt))
}

// Sleep returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Retry is how an engine connects when it starts.
type Retry struct {
	// Timeout is for how long further attempts begin. 0: there is one attempt.
	Timeout time.Duration
	// Hopeless reports that further attempts cannot help. Nil: they may help.
	Hopeless func(err error) bool
	// Failed gets the error of each attempt that is followed by another one.
	Failed func(err error)
}

// Do calls try until it succeeds or is hopeless, Timeout is over or ctx ends. It returns the error of the last attempt.
// Between two attempts is a ConnectPause.
func (r *Retry) Do(ctx context.Context, try func(ctx context.Context) error) error {
	end := time.Now().Add(r.Timeout)
	for attempt := 0; ; attempt++ {
		err := try(ctx)
		if err == nil || ctx.Err() != nil || r.Hopeless != nil && r.Hopeless(err) {
			return err
		}
		pause := min(ConnectPause(attempt), time.Until(end))
		if pause <= 0 {
			return err
		}
		r.Failed(err)
		if !Sleep(ctx, pause) {
			return err
		}
	}
}
