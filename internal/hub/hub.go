// Package hub knows which subscribers a loop has for each channel, and encodes messages for them: once per variant,
// shared by all.
package hub

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/channelset"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/transport"
)

// Subscriber takes the messages of a channel.
type Subscriber interface {
	// Deliver takes a message. d is valid during the call; Keep lets d.Message live longer. The subscriber may remove
	// itself from the hub, but no other subscriber of the channel.
	Deliver(d *Delivery)
	// DeliverAll takes several messages in one frame. If it returns false, the hub calls Deliver for each.
	DeliverAll(b *Batch) bool
	// Membership returns always the same value, which is for the hub alone.
	Membership() *Membership
}

// Counter counts the deliveries of hubs, in sums: nothing is called for a single delivery.
type Counter interface {
	// bytes is the size without envelope.
	Sent(ch string, k Kind, f transport.Framer, messages, bytes int)
	// Filtered counts publications that subscribers skipped because of a filter.
	Filtered(ch string, publications int)
	Taken(ch string, p *channel.Publication)
	// Done counts a publication that all have got. Its delivery began at since, the time of an Advance.
	Done(ch string, since int64, p *channel.Publication)
}

// Membership of a subscriber: its group, and its index there. The zero value is in no group.
type Membership struct {
	group *group
	index int32
	base  uint32 // the base in baseTable that the subscriber received last; 0: no base is kept
}

// Channel is a text that all subscribers can share; empty without a group.
func (s *Membership) Channel() string {
	if s.group == nil {
		return ""
	}
	return s.group.channel
}

// Hub holds the subscribers of one loop. One goroutine at a time may use it.
type Hub struct {
	// OnPanic, if set, may remove the subscriber.
	OnPanic func(s Subscriber, reason any, stack []byte)
	Counter Counter

	arena       *sendqueue.Arena
	bases       baseTable
	groups      channelset.Table[*group]
	keyed       map[address]*group
	subscribers int

	delivered uint64

	// active are the sweeps under way, served in turn, with pending messages together.
	active  []*sweep
	pending int
	free    []*sweep
	frames  [][]encoded

	now int64
	// Few groups have windows. waiting are the sweeps that are held back, with waitingBytes of messages.
	windows      map[*group]Window
	waiting      queue
	waitingBytes int
}

type address struct{ channel, key string }

// group has the subscribers of a channel or key, on most loops one.
type group struct {
	channel string
	key     *string // nil: the group belongs to the whole channel
	next    *group  // in the hub's list
	sweep   *sweep  // nil when nothing is being delivered
	one     [1]Subscriber
	many    *[]Subscriber // all of them, once there were two; one is empty then
}

// Channel implements channelset.Item.
func (g *group) Channel() string { return g.channel }

// Next implements channelset.Item.
func (g *group) Next() **group { return &g.next }

// subs is valid until a subscriber comes or goes.
func (g *group) subs() []Subscriber {
	switch {
	case g.many != nil:
		return *g.many
	case g.one[0] == nil:
		return nil
	}
	return g.one[:]
}

const (
	// maxBatch is how many messages a subscriber gets at once at most: larger batches gain little, and its queue has a
	// limit.
	maxBatch = 64
	// keepSweeps bounds Hub.free, keepNext the capacity of sweep.next there, keepLists
	// Hub.frames.
	keepSweeps = 256
	keepNext   = 1024
	keepLists  = 256
)

// New returns an empty hub, which makes frames in arena.
func New(arena *sendqueue.Arena) *Hub { return &Hub{arena: arena} }

// Add makes s, which must be in no group, a subscriber of a channel.
func (h *Hub) Add(ch string, s Subscriber) {
	g := h.groups.Get(ch)
	if g == nil {
		g = &group{channel: ch}
		h.groups.Add(g)
	}
	g.add(s)
	h.subscribers++
}

// AddKey makes s, which must be in no group, a subscriber of a key alone, and returns whether it is the first.
func (h *Hub) AddKey(ch, key string, s Subscriber) (first bool) {
	at := address{ch, key}
	g := h.keyed[at]
	if first = g == nil; first {
		if h.keyed == nil {
			h.keyed = make(map[address]*group)
		}
		g = &group{channel: ch, key: &key}
		h.keyed[at] = g
	}
	g.add(s)
	return first
}

// Each calls f with the subscribers of a channel, until it returns false. f must not change the hub.
func (h *Hub) Each(ch string, f func(Subscriber) bool) {
	g := h.groups.Get(ch)
	if g == nil {
		return
	}
	for _, s := range g.subs() {
		if !f(s) {
			return
		}
	}
}

func (g *group) add(s Subscriber) {
	before := g.subs()
	*s.Membership() = Membership{group: g, index: int32(len(before))}
	switch {
	case g.many != nil:
		*g.many = append(before, s)
	case len(before) == 0:
		g.one[0] = s
	default:
		g.many = &[]Subscriber{before[0], s}
		g.one[0] = nil
	}
}

func (g *group) drop() (left int) {
	if g.many == nil {
		g.one[0] = nil
		return 0
	}
	list := *g.many
	left = len(list) - 1
	list[left] = nil
	list = list[:left]
	if cap(list) > 64 && left < cap(list)/4 {
		list = append(make([]Subscriber, 0, 2*left), list...)
	}
	*g.many = list
	return left
}

func (h *Hub) find(m *Message) *group {
	if m.Keyed {
		return h.keyed[address{m.Channel, m.Pub.Key}]
	}
	return h.groups.Get(m.Channel)
}

// Remove returns whether s was the last one in its group.
func (h *Hub) Remove(s Subscriber) (last bool) {
	member := s.Membership()
	g := member.group
	if g == nil {
		return false
	}
	if member.base != 0 {
		h.bases.release(member)
		h.bases.dropUnused(g)
	}
	end, hole := len(g.subs())-1, int(member.index)
	if g.sweep != nil {
		hole = g.sweep.vacate(hole)
	}
	if hole != end {
		g.move(end, hole)
	}
	*member = Membership{}
	if g.key == nil {
		h.subscribers--
	}
	if last = g.drop() == 0; last {
		h.close(g)
	}
	return last
}

func (h *Hub) close(g *group) {
	if g.key != nil {
		delete(h.keyed, address{g.channel, *g.key})
		return
	}
	h.groups.Remove(g)
	delete(h.windows, g)
	h.bases.dropUnused(g)
	if w := g.sweep; w != nil && w.heapIndex != 0 {
		h.drop(w)
	}
}

func (g *group) move(from, to int) {
	subs := g.subs()
	s := subs[from]
	subs[to] = s
	s.Membership().index = int32(to)
}

// Publish queues m for the subscribers that its channel has when it is delivered.
func (h *Hub) Publish(m *Message) {
	g := h.find(m)
	if g == nil {
		m.done()
		return
	}
	if h.Counter != nil && m.Kind == KindPublication {
		h.Counter.Taken(m.Channel, m.Pub)
	}
	w := g.sweep
	if w == nil {
		w = h.newSweep(g)
	}
	w.next = append(w.next, m)
	if m.Kind == KindCheck {
		w.checks++
	}
	if w.heapIndex != 0 {
		h.addWaiting(w, m)
		return
	}
	h.pending++
}

func (h *Hub) newSweep(g *group) *sweep {
	var w *sweep
	if n := len(h.free); n > 0 {
		w = h.free[n-1]
		h.free = h.free[:n-1]
	} else {
		w = new(sweep)
	}
	w.group, g.sweep = g, w
	if len(h.windows) > 0 {
		w.window = h.windows[g]
	}
	h.active = append(h.active, w)
	return w
}

// Finish delivers to s all that was published so far. The caller then removes s.
func (h *Hub) Finish(s Subscriber) {
	member := s.Membership()
	g := member.group
	if g == nil || g.sweep == nil {
		return
	}
	w := g.sweep
	var rest Batch
	add := func(m *Message) {
		rest.list = append(rest.list, Delivery{Message: m, WindowDelay: w.window.Delay, hub: h})
	}
	for i := range w.batch.list {
		if w.awaited(i, int(member.index)) {
			add(w.batch.list[i].Message)
		}
	}
	for _, m := range w.next {
		add(m)
	}
	rest.prepare(w.window.Latest)
	deliver(s, &rest)
	rest.forget(h.Counter)
	h.delivered += uint64(rest.count())
}

// Pending is the number of messages that are not delivered to all yet, without those that wait for a window.
func (h *Hub) Pending() int { return h.pending }

// Forget drops the frames in the arena, between turns, when everything is flushed.
func (h *Hub) Forget() {
	h.bases.forget(h.Counter)
	for _, w := range h.active {
		w.batch.forget(h.Counter)
	}
}

// Deliver goes on with deliveries, to about budget subscribers. Channels take turns. It reports whether some are left.
func (h *Hub) Deliver(budget int) (more bool) {
	for budget > 0 && len(h.active) > 0 {
		done := 0
		for _, w := range h.active {
			if h.wait(w) {
				continue
			}
			if budget > 0 {
				budget -= h.serve(w, budget)
			}
			if len(w.batch.list)+len(w.next) == 0 {
				h.release(w)
				continue
			}
			h.active[done] = w
			done++
		}
		clear(h.active[done:])
		h.active = h.active[:done]
	}
	if len(h.active) == 0 {
		return false
	}
	first := h.active[0]
	h.active[copy(h.active, h.active[1:])] = first
	return true
}

func (h *Hub) release(w *sweep) {
	w.group.sweep, w.group = nil, nil
	w.window, w.due, w.checks = Window{}, 0, 0
	if len(h.free) < keepSweeps && cap(w.next) <= keepNext {
		h.free = append(h.free, w)
	}
}

func (h *Hub) spareFrames() (list []encoded) {
	if n := len(h.frames); n > 0 {
		list, h.frames = h.frames[n-1], h.frames[:n-1]
	}
	return list
}

func (h *Hub) keepFrames(list []encoded) {
	if cap(list) > 0 && len(h.frames) < keepLists {
		clear(list)
		h.frames = append(h.frames, list[:0])
	}
}

// Channels calls f with each channel and the number of its subscribers.
func (h *Hub) Channels(f func(ch string, subscribers int)) {
	for g := range h.groups.All() {
		f(g.channel, len(g.subs()))
	}
}

// SubscribersOf is the number of subscribers of a channel.
func (h *Hub) SubscribersOf(ch string) int {
	if g := h.groups.Get(ch); g != nil {
		return len(g.subs())
	}
	return 0
}

// Delivered counts deliveries so far, of one message to one subscriber, without checks.
func (h *Hub) Delivered() uint64 { return h.delivered }

// Subscribers is the number of subscribers of all channels.
func (h *Hub) Subscribers() int { return h.subscribers }
