package mapcache

import (
	"container/list"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// cachedMap is the cached state of a channel.
type cachedMap struct {
	ch    string
	total *atomic.Int64 // the bytes of all channels
	// The lock of the cache guards these two.
	element *list.Element // in cache.recent
	read    time.Time     // when it was read last

	// bypassedUntil is when a channel that is not cached is tried again, by enginekit.Since; 0 if it is cached.
	bypassedUntil atomic.Int64

	mu    sync.RWMutex
	phase phase
	// pending are the changes that come during the load.
	pending []broker.PublicationEvent
	// top is the position of entries and changes. Readers that have seen floor do not get less.
	top, floor channel.StreamPosition
	// behind is when floor went beyond top.
	behind  time.Time
	entries btree.Map[string, *channel.Publication]
	changes changes
	bytes   int64
	changed chan struct{} // closed when a field above changes; nil if no reader waits for it
}

type phase int

const (
	loading  phase = iota // changes are put aside
	live                  // changes are applied
	bypassed              // not cached for a while
	gone                  // not in the table any more
)

// wake wakes the readers that wait. Like the methods below, unless they lock, it is called under the lock.
func (h *cachedMap) wake() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// awaited is closed at the next change.
func (h *cachedMap) awaited() <-chan struct{} {
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// isBehind tells whether a reader has seen more than the cache has.
func (h *cachedMap) isBehind() bool { return h.top.Offset < h.floor.Offset }

// raise makes reads show at least a position. Like update, it locks, and returns the reason to forget the channel.
func (h *cachedMap) raise(read channel.StreamPosition) dropReason {
	h.mu.RLock()
	enough := read.Epoch == "" || h.phase > live || h.floor.Epoch == read.Epoch && h.floor.Offset >= read.Offset
	h.mu.RUnlock()
	if enough {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.phase > live:
		return ""
	case h.floor.Epoch == "":
		h.floor = read
	case h.floor.Epoch != read.Epoch:
		return dropEpoch
	case read.Offset > h.floor.Offset:
		h.floor.Offset = read.Offset
	}
	if h.phase == live && h.isBehind() && h.behind.IsZero() {
		h.behind = time.Now()
	}
	return ""
}

// count adds the growth since a number of bytes to the total, under the lock, so that bytes are counted before they can
// be taken away.
func (h *cachedMap) count(before int64) { h.total.Add(h.bytes - before) }

// update applies a change, or puts it aside while the channel is loaded.
func (h *cachedMap) update(e *broker.PublicationEvent, most *limits) (reason dropReason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.count(h.bytes)
	switch h.phase {
	case loading:
		pub := own(e.Pub)
		h.pending = append(h.pending, broker.PublicationEvent{Pub: pub, Epoch: e.Epoch})
		h.bytes += size(pub)
	case live:
		reason = h.apply(e.Pub, e.Epoch, most, own)
		if reason == "" {
			h.wake()
		}
	}
	return reason
}

// apply applies a change, unless it is known. own returns a copy.
func (h *cachedMap) apply(pub *channel.Publication, epoch string, most *limits, own func(*channel.Publication) *channel.Publication) dropReason {
	switch {
	case pub.Offset == 0:
		return dropEphemeral
	case epoch != h.top.Epoch:
		return dropEpoch
	case pub.Offset <= h.top.Offset:
		return ""
	case pub.Offset != h.top.Offset+1:
		return dropHole
	case pub.Key == "":
		return dropForeign
	}
	pub = own(pub)
	if pub.Removed {
		if was, ok := h.entries.Delete(pub.Key); ok {
			h.bytes -= size(was)
		}
	} else {
		if was, ok := h.entries.Set(pub.Key, pub); ok {
			h.bytes -= size(was)
		}
		h.bytes += size(pub)
	}
	h.changes.push(pub)
	h.bytes += size(pub)
	h.bytes -= h.changes.trim(most, h.bytes)
	h.top.Offset++
	if !h.isBehind() {
		h.behind = time.Time{}
	}
	switch {
	case h.bytes > most.bytes:
		return dropLarge
	case h.entries.Len() == 0 && !h.isBehind():
		return dropEmpty
	}
	return ""
}

// page and since: ok is false if the broker must answer.
func (h *cachedMap) page(f *channel.StateFilter) (s channel.State, ok bool) {
	count := h.entries.Len()
	if count == 0 {
		return s, false
	}
	s.Top, s.Count = h.top, count
	switch {
	case f.Key != "":
		if pub, found := h.entries.Get(f.Key); found {
			s.Entries = []*channel.Publication{pub}
		}
		return s, true
	case f.Limit == 0:
		return s, true
	}
	limit := f.Limit
	if limit < 0 || limit > count {
		limit = count
	}
	s.Entries = make([]*channel.Publication, 0, limit)
	h.entries.Ascend(f.Cursor, func(key string, pub *channel.Publication) bool {
		if key == f.Cursor {
			return true
		}
		if len(s.Entries) == limit {
			s.Cursor = s.Entries[limit-1].Key
			return false
		}
		s.Entries = append(s.Entries, pub)
		return true
	})
	return s, true
}

func (h *cachedMap) since(f *broker.HistoryFilter) (history broker.History, ok bool) {
	from := f.Since.Offset
	if h.entries.Len() == 0 || from > h.top.Offset || from < h.top.Offset-uint64(h.changes.len()) {
		return history, false
	}
	all := h.changes.last(int(h.top.Offset - from))
	if f.Limit > 0 && len(all) > f.Limit {
		all = all[:f.Limit]
	}
	return broker.History{Publications: slices.Clone(all), Top: h.top}, true
}

// changes are the newest changes of a channel, without holes. The last one has the top position.
type changes struct {
	list []*channel.Publication
	head int // of list; the elements in front of it are nil
}

func (c *changes) len() int { return len(c.list) - c.head }

func (c *changes) last(n int) []*channel.Publication { return c.list[len(c.list)-n:] }

func (c *changes) push(pub *channel.Publication) {
	if c.head > len(c.list)/2 {
		n := copy(c.list, c.list[c.head:])
		clear(c.list[n:])
		c.list, c.head = c.list[:n], 0
	}
	c.list = append(c.list, pub)
}

// limits of a channel.
type limits struct {
	changes int
	bytes   int64
}

// trim forgets the oldest changes of a channel, which takes this many bytes, until it is within the limits.
func (c *changes) trim(most *limits, bytes int64) (freed int64) {
	for c.len() > most.changes || bytes-freed > most.bytes && c.len() > 0 {
		freed += size(c.list[c.head])
		c.list[c.head] = nil
		c.head++
	}
	return freed
}

// overhead of a publication: the struct, its place in entries or changes, and the rounding of allocations.
const overhead = 200

// size counts twice for an entry that is a change.
func size(pub *channel.Publication) int64 {
	n := overhead + len(pub.Key) + len(pub.Data) + len(pub.Channel)
	for key, value := range pub.Tags {
		n += 64 + len(key) + len(value)
	}
	if i := pub.Info; i != nil {
		n += 128 + len(i.User) + len(i.Client) + len(i.ConnInfo) + len(i.ChanInfo)
	}
	return int64(n)
}

// own returns a copy that shares no memory with pub, which may be a part of something much larger, or be used again.
func own(pub *channel.Publication) *channel.Publication {
	p := *pub
	p.Key, p.Channel, p.Data = strings.Clone(p.Key), strings.Clone(p.Channel), slices.Clone(p.Data)
	if p.Tags != nil {
		p.Tags = make(map[string]string, len(pub.Tags))
		for key, value := range maps.All(pub.Tags) {
			p.Tags[strings.Clone(key)] = strings.Clone(value)
		}
	}
	if pub.Info != nil {
		p.Info = &channel.ClientInfo{
			User: strings.Clone(pub.Info.User), Client: strings.Clone(pub.Info.Client),
			ConnInfo: slices.Clone(pub.Info.ConnInfo), ChanInfo: slices.Clone(pub.Info.ChanInfo),
		}
	}
	return &p
}
