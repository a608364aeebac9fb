package mapcache

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

const (
	// patience is how long a read waits for the delivery to catch up.
	patience = 50 * time.Millisecond
	// tooLate is how long a channel may be behind before it is loaded again.
	tooLate = time.Second
	// shortBypass is for a channel that the next read may find cacheable, longBypass for a kind that is not cached.
	shortBypass, longBypass = time.Second, time.Minute
)

// use returns nil if the channel is not cached now.
func (c *cache) use(ch string, load bool) *cachedMap {
	now := time.Now()
	c.mu.Lock()
	h, ok := c.table[ch]
	if ok {
		if until := h.bypassedUntil.Load(); until == 0 || until > enginekit.Since(now) {
			c.recent.MoveToFront(h.element)
			h.read = now
			c.mu.Unlock()
			if until > 0 {
				return nil
			}
			return h
		}
		c.remove(h, "")
	}
	if _, ok := c.subscribed[ch]; !ok || !load || c.closed {
		c.mu.Unlock()
		return nil
	}
	for len(c.table) >= c.cfg.MaxChannels {
		c.remove(c.recent.Back().Value.(*cachedMap), dropEvicted)
	}
	h = &cachedMap{ch: ch, total: &c.bytes, read: now}
	h.element = c.recent.PushFront(h)
	c.table[ch] = h
	c.background.Go(func() { c.load(h) })
	c.mu.Unlock()
	return h
}

// find does not count as a read.
func (c *cache) find(ch string) *cachedMap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table[ch]
}

// changesSince and page: ok is false if the broker must answer.
func (c *cache) changesSince(ctx context.Context, h *cachedMap, f *broker.HistoryFilter) (history broker.History, ok bool) {
	unlock := c.enter(ctx, h)
	if unlock == nil {
		return history, false
	}
	defer unlock()
	if history, ok = h.since(f); ok {
		c.counters.hits.Add(1)
	}
	return history, ok
}

func (c *cache) page(ctx context.Context, h *cachedMap, f *channel.StateFilter) (s channel.State, ok bool) {
	unlock := c.enter(ctx, h)
	if unlock == nil {
		return s, false
	}
	defer unlock()
	if s, ok = h.page(f); ok {
		c.counters.hits.Add(1)
	}
	return s, ok
}

// enter takes the lock for reading when the channel has everything that readers have seen before. It returns nil,
// without the lock, if the broker must answer.
func (c *cache) enter(ctx context.Context, h *cachedMap) (unlock func()) {
	h.mu.RLock()
	if h.phase == live && !h.isBehind() && ctx.Err() == nil {
		return h.mu.RUnlock
	}
	h.mu.RUnlock()
	caughtUp, late := h.await(ctx)
	if late {
		c.dropThis(h, dropBehind)
	}
	if !caughtUp {
		return nil
	}
	h.mu.RLock()
	if h.phase == live {
		return h.mu.RUnlock
	}
	h.mu.RUnlock()
	return nil
}

// await waits for the load, LoadTimeout at most, and then, patience at most, for everything that readers have seen
// before. late: the channel has been behind for too long.
func (h *cachedMap) await(ctx context.Context) (caughtUp, late bool) {
	var limit <-chan time.Time
	var need uint64
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.phase > live || ctx.Err() != nil:
			return false, false
		case h.phase == live && limit == nil:
			need = h.floor.Offset
			limit = time.After(patience)
		}
		if h.phase == live && h.top.Offset >= need {
			return true, false
		}
		changed, timeout := h.awaited(), false
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		case <-limit:
			timeout = true
		}
		h.mu.Lock()
		if timeout && h.phase == live && h.top.Offset < need {
			return false, !h.behind.IsZero() && time.Since(h.behind) >= tooLate
		}
	}
}

func (c *cache) noteRead(ch string, position channel.StreamPosition) {
	h := c.find(ch)
	if h == nil {
		return
	}
	if reason := h.raise(position); reason != "" {
		c.dropThis(h, reason)
	}
}

func (c *cache) update(ch string, e *broker.PublicationEvent) {
	h := c.find(ch)
	if h == nil {
		return
	}
	if reason := h.update(e, &c.limits); reason != "" {
		c.dropThis(h, reason)
	}
	c.evict()
}

// evict forgets the channels that were read least recently until the others fit into MaxBytes.
func (c *cache) evict() {
	if c.bytes.Load() <= c.cfg.MaxBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes.Load() > c.cfg.MaxBytes && c.recent.Len() > 0 {
		c.remove(c.recent.Back().Value.(*cachedMap), dropEvicted)
	}
}

func (c *cache) drop(ch string, reason dropReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.table[ch]; ok {
		c.remove(h, reason)
	}
}

// dropThis does nothing if the channel was forgotten, and perhaps loaded again.
func (c *cache) dropThis(h *cachedMap, reason dropReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table[h.ch] == h {
		c.remove(h, reason)
	}
}

func (c *cache) dropWhere(reason dropReason, match func(ch string) bool) {
	c.mu.Lock()
	list := make([]*cachedMap, 0, len(c.table))
	for _, h := range c.table {
		list = append(list, h)
	}
	c.mu.Unlock()
	for _, h := range list {
		if match(h.ch) {
			c.dropThis(h, reason)
		}
	}
}

// remove forgets a channel. The caller holds the lock of the cache.
func (c *cache) remove(h *cachedMap, reason dropReason) {
	delete(c.table, h.ch)
	c.recent.Remove(h.element)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase <= live {
		c.counters.dropped(reason)
	}
	c.empty(h, gone)
}

// bypass keeps a channel that was being loaded out of the cache for a while.
func (c *cache) bypass(h *cachedMap, how bypass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == gone {
		return
	}
	c.counters.dropped(how.reason)
	c.empty(h, bypassed)
	h.bypassedUntil.Store(enginekit.Since(time.Now().Add(how.lasts)))
}

// empty frees the cached state. The caller holds its lock.
func (c *cache) empty(h *cachedMap, to phase) {
	c.bytes.Add(-h.bytes)
	h.phase, h.bytes, h.pending = to, 0, nil
	h.entries.Clear()
	h.changes = changes{}
	h.wake()
}

func (c *cache) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.recent.Back(); e != nil; e = c.recent.Back() {
		h := e.Value.(*cachedMap)
		if time.Since(h.read) < c.cfg.IdleTimeout {
			return
		}
		c.remove(h, dropIdle)
	}
}
