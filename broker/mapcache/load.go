package mapcache

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

const loadPage = 1000

// bypass is why a channel is not cached, and for how long.
type bypass struct {
	reason dropReason
	lasts  time.Duration
}

type image struct {
	top     channel.StreamPosition // of the first page
	far     uint64                 // the greatest offset that was read
	entries btree.Map[string, *channel.Publication]
	changes changes
	bytes   int64
}

func (c *cache) load(h *cachedMap) {
	c.counters.loads.Add(1)
	ctx, cancel := context.WithTimeout(c.lifetime, c.cfg.LoadTimeout)
	defer cancel()
	m, why := c.readAll(ctx, h)
	if why.reason != "" {
		c.bypass(h, why)
		return
	}
	if why = h.begin(m, &c.limits); why.reason != "" {
		c.bypass(h, why)
		return
	}
	c.evict()
}

// readAll reads pages that may be of different positions. When the changes since the first page are applied, until the
// last position of a page at least, the entries are exact.
func (c *cache) readAll(ctx context.Context, h *cachedMap) (m *image, why bypass) {
	m = &image{}
	for first, cursor := true, ""; first || cursor != ""; first = false {
		s, err := c.maps.State(ctx, h.ch, channel.StateFilter{Cursor: cursor, Limit: loadPage})
		switch {
		case err != nil:
			return nil, bypass{dropFailed, shortBypass}
		case first && s.Count == 0:
			return nil, bypass{dropEmpty, shortBypass}
		case first:
			m.top = s.Top
		case s.Top.Epoch != m.top.Epoch || s.Top.Offset < m.top.Offset:
			return nil, bypass{dropEpoch, shortBypass}
		}
		if why := m.add(&s, c.cfg.MaxBytes); why.reason != "" {
			return nil, why
		}
		cursor = s.Cursor
	}
	if why := c.readTop(ctx, h.ch, m); why.reason != "" {
		return nil, why
	}
	past, err := c.Broker.History(ctx, h.ch, broker.HistoryFilter{Limit: c.cfg.StreamSize, Reverse: true})
	switch {
	case err != nil:
		return nil, bypass{dropFailed, shortBypass}
	case past.Top.Epoch != m.top.Epoch:
		return nil, bypass{dropEpoch, shortBypass}
	}
	m.far = max(m.far, past.Top.Offset)
	m.remember(past.Publications, &c.limits)
	return m, bypass{}
}

// readTop reads the position where it is written, because pages may come from a copy that is behind. Then readers wait
// for the missing changes, or go to the broker.
func (c *cache) readTop(ctx context.Context, ch string, m *image) (why bypass) {
	if c.positions == nil {
		return bypass{}
	}
	switch at := c.positions(ctx, []string{ch}, 0)[0]; {
	case at.Err != nil:
		return bypass{dropFailed, shortBypass}
	case at.Top.Epoch != m.top.Epoch:
		return bypass{dropEpoch, shortBypass}
	default:
		m.far = max(m.far, at.Top.Offset)
		return bypass{}
	}
}

func (m *image) add(s *channel.State, most int64) (why bypass) {
	m.far = max(m.far, s.Top.Offset)
	for _, pub := range s.Entries {
		if pub.Offset == 0 {
			return bypass{dropEphemeral, longBypass}
		}
		pub = own(pub)
		m.entries.Set(pub.Key, pub)
		m.bytes += size(pub)
		if m.bytes > most {
			return bypass{dropLarge, longBypass}
		}
	}
	return bypass{}
}

// remember keeps the changes that end at the top, without a hole. newest has the newest one first.
func (m *image) remember(newest []*channel.Publication, most *limits) {
	next := m.top.Offset
	var list []*channel.Publication
	for _, pub := range newest {
		if pub.Offset > next {
			continue // it comes as an event
		}
		if pub.Offset != next || next == 0 {
			break
		}
		list = append(list, pub)
		next--
	}
	for _, pub := range slices.Backward(list) {
		m.changes.push(own(pub))
		m.bytes += size(pub)
	}
	m.bytes -= m.changes.trim(most, m.bytes)
}

func (h *cachedMap) begin(m *image, most *limits) (why bypass) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != loading {
		return bypass{}
	}
	if h.floor.Epoch != "" && h.floor.Epoch != m.top.Epoch {
		return bypass{dropEpoch, shortBypass}
	}
	defer h.count(h.bytes)
	pending := h.pending
	h.top, h.entries, h.changes, h.bytes, h.pending = m.top, m.entries, m.changes, m.bytes, nil
	h.floor = channel.StreamPosition{Offset: max(h.floor.Offset, m.far), Epoch: m.top.Epoch}
	for _, e := range pending {
		if reason := h.apply(e.Pub, e.Epoch, most, itself); reason != "" {
			return bypass{reason, shortBypass}
		}
	}
	h.phase = live
	if h.isBehind() {
		h.behind = time.Now()
	}
	h.wake()
	return bypass{}
}

func itself(pub *channel.Publication) *channel.Publication { return pub }
