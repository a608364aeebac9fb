package cluster

import (
	"sync"
	"time"
)

// clock tells how long this node has lived. The system's monotonic clock stands still while a virtual machine is
// suspended, and the wall clock may be set back, so clock advances by the larger of the two. It may gain time, but never
// loses any.
type clock struct {
	mu    sync.Mutex
	read  time.Time
	lived time.Duration
}

func (c *clock) now() time.Duration { return c.at(time.Now()) }

func (c *clock) at(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() {
		monotonic, wall := now.Sub(c.read), now.Round(0).Sub(c.read.Round(0))
		c.lived += max(monotonic, wall, 0)
	}
	c.read = now
	return c.lived
}
