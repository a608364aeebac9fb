package services

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff returns the pause before a retry: the first is number 1. It doubles, up to 5 s.
func Backoff(retry int) time.Duration {
	const limit = 5 * time.Second
	if retry >= 9 {
		return limit
	}
	return min((10*time.Millisecond+rand.N(10*time.Millisecond))<<max(retry, 0), limit)
}

// Sleep waits for d; it returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Bound returns a context that ends after a time, unless ctx itself says when it ends.
func Bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}
