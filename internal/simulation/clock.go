package simulation

import (
	"sync/atomic"
	"time"
)

// clock is the wall clock of a machine. It differs from the time of the run by an offset, which grows, and jumps. Any
// goroutine may read it.
type clock struct {
	began  time.Time
	drift  int64 // parts of a million
	offset atomic.Int64
}

// newClock makes the clock of a machine by the plan.
func (r *run) newClock(name string) *clock {
	n, fate := r.plan.Network, stream(r.plan.Seed, "clock "+name)
	part := func(most int64) int64 { return fate.Int64N(2*most+1) - most }
	c := &clock{began: r.begin, drift: part(int64(n.Drift))}
	c.offset.Store(part(int64(n.Skew)))
	return c
}

func (c *clock) now() time.Time {
	now := time.Now()
	return now.Add(time.Duration(c.offset.Load() + int64(now.Sub(c.began))/1e6*c.drift))
}

// jumps of clocks: corrections by NTP, a person who sets the clock, a machine that was suspended.
var jumps = []time.Duration{20 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second, time.Minute, 2 * time.Hour}

// jump sets a clock. n chooses how far, and whether forward or back.
func (r *run) jump(m *machine, n int) {
	d := jumps[n/2%len(jumps)]
	if n%2 == 0 {
		d = -d
	}
	m.clock.offset.Add(int64(d))
	r.log.add(m.name, "the clock jumps by %v", d)
}

// setClocks sets all clocks right.
func (r *run) setClocks() {
	for _, m := range r.machines {
		m.clock.offset.Store(-int64(r.now()) / 1e6 * m.clock.drift)
	}
}
