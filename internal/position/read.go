package position

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
)

const (
	readTimeout = 10 * time.Second
	readers     = 16
	// minGrace is how long a publication may take from the broker to the node before it counts as lost. If the broker's
	// canaries take long, it is longer, up to maxGrace.
	minGrace = time.Second
	maxGrace = 10 * time.Second
)

// tops reads tops. After wait, every publication up to them has arrived or is lost.
func (c *Checker) tops(targets []target) (tops []broker.PositionResult, wait time.Duration) {
	ctx, cancel := context.WithTimeout(c.ctx, readTimeout)
	defer cancel()
	tops = make([]broker.PositionResult, len(targets))
	if c.broker.Positions == nil {
		c.histories(ctx, targets, tops)
		return tops, c.grace()
	}
	indexes := map[time.Duration][]int{} // by time to live; there are few
	for i := range targets {
		indexes[targets[i].ttl] = append(indexes[targets[i].ttl], i)
	}
	var wg sync.WaitGroup
	for ttl, at := range indexes {
		if len(indexes) == 1 {
			c.batch(ctx, targets, at, ttl, tops)
			break
		}
		wg.Go(func() { c.batch(ctx, targets, at, ttl, tops) })
	}
	wg.Wait()
	if c.broker.Local {
		return tops, 0 // everything up to the tops had been handed over when they were read
	}
	return tops, c.grace()
}

// batch reads the tops of the targets at these indexes, which share a time to live, with one call.
func (c *Checker) batch(ctx context.Context, targets []target, indexes []int, ttl time.Duration, tops []broker.PositionResult) {
	names := make([]string, len(indexes))
	for i, at := range indexes {
		names[i] = targets[at].channel
	}
	got := c.broker.Positions(ctx, names, ttl)
	for i, at := range indexes {
		if len(got) != len(names) {
			tops[at].Err = fmt.Errorf("the broker returned %d positions of %d channels", len(got), len(names))
			continue
		}
		tops[at] = got[i]
	}
}

func (c *Checker) histories(ctx context.Context, targets []target, tops []broker.PositionResult) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for range min(readers, len(targets)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(targets); i = int(next.Add(1)) - 1 {
				h, err := c.cfg.Broker.History(ctx, targets[i].channel, broker.HistoryFilter{MetaTTL: targets[i].ttl})
				tops[i] = broker.PositionResult{Top: h.Top, Err: err}
			}
		})
	}
	wg.Wait()
}

func (c *Checker) grace() time.Duration {
	g := minGrace
	if c.broker.Health != nil {
		for _, h := range c.broker.Health() {
			g = max(g, 2*h.Delay)
		}
	}
	return min(g, maxGrace)
}
