package mapcache

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/random"
	"github.com/gyrohq/gyro/logging"
)

// inFlight is how long a change may be on its way.
const inFlight = time.Second

type compared struct {
	*cachedMap
	before channel.StreamPosition // in the cache, before the broker's was read
	at     broker.PositionResult  // the broker's
}

// keepInSync begins at random, so that nodes that started together do not ask together.
func (c *cache) keepInSync() {
	wait := random.N(c.cfg.SyncInterval)
	var outage logging.Outage
	for {
		select {
		case <-c.lifetime.Done():
			return
		case <-time.After(wait):
		}
		wait = c.cfg.SyncInterval
		err := c.compare()
		if err == nil {
			outage.End()
		} else if outage.Fail(err) == 1 && c.lifetime.Err() == nil {
			c.cfg.Logger.Warn("positions of cached maps cannot be compared with the broker's; trying again",
				"interval_ms", c.cfg.SyncInterval.Milliseconds(), "error", err)
		}
	}
}

// compare forgets the channels whose positions differ. It returns the first error of a read.
func (c *cache) compare() (failure error) {
	list := c.livePositions()
	c.readPositions(list)
	var suspects []compared
	for _, p := range list {
		switch reason := p.differs(); {
		case p.at.Err != nil:
			failure = p.at.Err
		case reason == dropBehind:
			suspects = append(suspects, p)
		case reason != "":
			c.differs(p, reason)
		}
	}
	if len(suspects) == 0 {
		return failure
	}
	select {
	case <-c.lifetime.Done():
		return failure
	case <-time.After(inFlight):
	}
	for _, p := range suspects {
		if reason := p.differs(); reason != "" {
			c.differs(p, reason)
		}
	}
	return failure
}

func (c *cache) differs(p compared, reason dropReason) {
	c.cfg.Logger.Warn("a cached map differed from the broker's: it is loaded again", "channel", p.ch, "reason", string(reason),
		"cached", p.before, "broker", p.at.Top)
	c.dropThis(p.cachedMap, reason)
}

// livePositions are in the order of their channels.
func (c *cache) livePositions() (list []compared) {
	c.mu.Lock()
	for _, h := range c.table {
		list = append(list, compared{cachedMap: h})
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(a, b compared) int { return strings.Compare(a.ch, b.ch) })
	for i := range list {
		h := list[i].cachedMap
		h.mu.RLock()
		if h.phase == live {
			list[i].before = h.top
		}
		h.mu.RUnlock()
	}
	return slices.DeleteFunc(list, func(p compared) bool { return p.before.Epoch == "" })
}

// differs returns the reason to forget the channel, or "". dropBehind may also mean that changes are on their way.
func (c *compared) differs() dropReason {
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.at.Err != nil || c.phase != live:
		return ""
	case c.at.Top.Epoch != c.top.Epoch:
		return dropEpoch
	case c.at.Top.Offset < c.before.Offset:
		return dropBack
	case c.at.Top.Offset > c.top.Offset:
		return dropBehind
	}
	return ""
}

func (c *cache) readPositions(list []compared) {
	size, ask := c.cfg.SyncBatchSize, c.positions
	if ask == nil {
		size, ask = 1, c.positionOf
	}
	slots := make(chan struct{}, c.cfg.SyncConcurrency)
	var group sync.WaitGroup
	for batch := range slices.Chunk(list, size) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(c.lifetime, c.cfg.LoadTimeout)
			defer cancel()
			channels := make([]string, len(batch))
			for i := range batch {
				channels[i] = batch[i].ch
			}
			for i, at := range ask(ctx, channels, 0) {
				batch[i].at = at
			}
		})
	}
	group.Wait()
}

func (c *cache) positionOf(ctx context.Context, channels []string, _ time.Duration) []broker.PositionResult {
	h, err := c.Broker.History(ctx, channels[0], broker.HistoryFilter{})
	return []broker.PositionResult{{Top: h.Top, Err: err}}
}
