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
	// readTimeout bounds the reading of a batch.
	readTimeout = 10 * time.Second
	// readers is how many reads of single channels are under way at a time.
	readers = 16
	// minGrace is how long a publication may be on its way from the broker to the node
	// before it counts as lost. If the broker's canaries take long, it is longer, up to
	// maxGrace.
	minGrace = time.Second
	maxGrace = 10 * time.Second
)

// tops reads the tops of some streams. After wait, every publication up to them has arrived
// or is lost.
func (c *Checker) tops(targets []target) (tops []broker.PositionResult, wait time.Duration) {
	ctx, cancel := context.WithTimeout(c.ctx, readTimeout)
	defer cancel()
	tops = make([]broker.PositionResult, len(targets))
	var together, single []int
	for i := range targets {
		if c.broker.Positions != nil && (c.broker.Local || targets[i].ttl == 0) {
			together = append(together, i)
		}
		if c.broker.Positions == nil || targets[i].ttl != 0 {
			single = append(single, i)
		}
	}
	c.batch(ctx, targets, together, tops)
	if c.broker.Positions == nil || !c.broker.Local {
		c.histories(ctx, targets, single, tops)
		return tops, c.grace()
	}
	// The batch renewed the life of these positions by the broker's default. Reading their
	// histories sets the right time to live. The tops of the batch count: everything up to
	// them had been handed over when they were read.
	c.histories(ctx, targets, single, make([]broker.PositionResult, len(targets)))
	return tops, 0
}

// batch reads the tops of the targets at these places with one call.
func (c *Checker) batch(ctx context.Context, targets []target, places []int, tops []broker.PositionResult) {
	if len(places) == 0 {
		return
	}
	names := make([]string, len(places))
	for i, at := range places {
		names[i] = targets[at].channel
	}
	got := c.broker.Positions(ctx, names)
	for i, at := range places {
		if len(got) != len(names) {
			tops[at].Err = fmt.Errorf("the broker returned %d positions of %d channels", len(got), len(names))
			continue
		}
		tops[at] = got[i]
	}
}

// histories reads the tops of the targets at these places, a few at a time.
func (c *Checker) histories(ctx context.Context, targets []target, places []int, tops []broker.PositionResult) {
	var (
		next atomic.Int64
		wg   sync.WaitGroup
	)
	for range min(readers, len(places)) {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(places); n = int(next.Add(1)) - 1 {
				i := places[n]
				h, err := c.cfg.Broker.History(ctx, targets[i].channel, broker.HistoryFilter{MetaTTL: targets[i].ttl})
				tops[i] = broker.PositionResult{Top: h.Top, Err: err}
			}
		})
	}
	wg.Wait()
}

// grace is the time that publications may take from the broker to the node.
func (c *Checker) grace() time.Duration {
	g := minGrace
	if c.broker.Health != nil {
		for _, h := range c.broker.Health() {
			g = max(g, 2*h.Delay)
		}
	}
	return min(g, maxGrace)
}
