package cluster

import (
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/clocks"
)

// clock tells how long this node has lived. The system's monotonic clock stands still while a virtual machine is
// suspended, and the wall clock may be set back, so clock advances by the larger of the two. It may gain time, but never
// loses any.
type clock struct {
	clocks *clocks.Clocks // the wall clock

	mu    sync.Mutex
	read  time.Time
	shown int64 // by the wall clock then
	lived time.Duration
}

func (c *clock) now() time.Duration { return c.at(time.Now(), c.clocks.Wall()) }

func (c *clock) at(now time.Time, shows int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.read.IsZero() {
		c.lived += max(now.Sub(c.read), time.Duration(shows-c.shown), 0)
	}
	c.read, c.shown = now, shows
	return c.lived
}
