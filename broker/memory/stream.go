package memory

import (
	"context"
	"hash/maphash"
	"math"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

// stream is the history of one channel, from its first publication on (see Broker.epoch). The offsets end at top and
// have no gap. The stripe's lock guards it.
type stream struct {
	queuePlace
	channel string
	epoch   string
	top     uint64
	pubs    ring
	entries *entries // nil unless the channel is a map

	version      uint64 // the last accepted one; 0 if there was none
	versionEpoch string

	pubsUntil int64 // when the publications expire
	metaUntil int64 // when the stream is forgotten; not before pubsUntil
	wakeAt    int64 // when the expiry queue looks at the stream; 0 if it does not
}

// stream returns nil if there was no publication or the stream has ended, which it does not with entries. It drops
// expired publications, before the expiry queue does.
func (b *Broker) stream(s *stripe, c *state, now int64) *stream {
	st := c.stream
	switch {
	case st == nil:
	case st.metaUntil <= now && st.entries.count() == 0:
		b.end(s, c)
		return nil
	case st.pubsUntil <= now:
		st.pubs = ring{}
	}
	return st
}

func (b *Broker) begin(s *stripe, ch string, c *state) *stream {
	ch = strings.Clone(ch)
	c.stream = &stream{channel: ch, epoch: b.epoch(s, ch, *c)}
	s.put(ch, *c)
	return c.stream
}

func (b *Broker) end(s *stripe, c *state) {
	st := c.stream
	b.expiryQueue.cancel(st)
	c.stream = nil
	if st.top > 0 { // without publications there is no position that a client could know
		life := s.lives.end(maphash.String(b.seed, st.channel))
		if c.subscribed {
			c.life = life
		}
	}
	s.put(st.channel, *c)
}

// schedule: if the queue looks earlier anyway, it will see then that the end has moved, so publishing to a busy channel
// costs nothing there.
func (b *Broker) schedule(st *stream) {
	at := st.ends()
	if st.wakeAt == 0 || at < st.wakeAt {
		st.wakeAt = at
		b.expiryQueue.schedule(st, at)
	}
}

func (st *stream) expire(b *Broker, now int64) {
	lock, s := b.locate(st.channel)
	s.mu.Lock()
	isMap := st.entries != nil
	s.mu.Unlock()
	if isMap {
		lock.Lock()
		defer lock.Unlock()
		b.removeExpired(s, st, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels.get(st.channel)
	if c.stream != st || b.stream(s, &c, now) == nil {
		return
	}
	st.wakeAt = st.ends()
	b.expiryQueue.schedule(st, st.wakeAt)
}

// accepts stores a version that is newer.
func (st *stream) accepts(version uint64, epoch string) bool {
	if version == 0 {
		return true
	}
	if version <= st.version && (epoch == "" || epoch == st.versionEpoch) {
		return false
	}
	st.version = version
	if st.versionEpoch != epoch {
		st.versionEpoch = strings.Clone(epoch)
	}
	return true
}

func (st *stream) newest() *channel.Publication {
	if st.pubs.count == 0 {
		return nil
	}
	return st.pubs.at(st.pubs.count-1).publication(st.top, new(channel.Publication))
}

func (st *stream) append(pub *channel.Publication, opts *broker.PublishOptions) {
	st.top++
	pub.Offset = st.top
	st.pubs.push(compactOf(pub), opts.HistorySize)
}

func (st *stream) renew(now int64, pubsTTL, metaTTL time.Duration) {
	st.pubsUntil = after(now, pubsTTL)
	st.renewMeta(now, metaTTL)
}

func (st *stream) renewMeta(now int64, ttl time.Duration) {
	st.metaUntil = after(now, ttl)
	if st.pubs.count > 0 {
		st.metaUntil = max(st.metaUntil, st.pubsUntil)
	}
}

// ends is when the next thing of the stream ends.
func (st *stream) ends() int64 {
	first, some := st.entries.first()
	switch {
	case st.pubs.count > 0:
		return min(st.pubsUntil, first)
	case some:
		return first
	}
	return st.metaUntil
}

func (st *stream) position() channel.StreamPosition {
	return channel.StreamPosition{Offset: st.top, Epoch: st.epoch}
}

func (st *stream) read(f broker.HistoryFilter) []*channel.Publication {
	if f.Limit == 0 || st.pubs.count == 0 {
		return nil
	}
	// The publication with offset o has the index o - oldest in the ring.
	oldest := st.top - uint64(st.pubs.count) + 1
	from, to := 0, st.pubs.count
	if f.Since != nil {
		if f.Reverse {
			to = clamp(f.Since.Offset, oldest, st.pubs.count)
		} else if f.Since.Offset == math.MaxUint64 {
			return nil
		} else {
			from = clamp(f.Since.Offset+1, oldest, st.pubs.count)
		}
	}
	n := to - from
	if f.Limit > 0 {
		n = min(n, f.Limit)
	}
	if n == 0 {
		return nil
	}
	pubs, rooms := make([]*channel.Publication, n), make([]channel.Publication, n)
	for i := range pubs {
		at := from + i
		if f.Reverse {
			at = to - 1 - i
		}
		pubs[i] = st.pubs.at(at).publication(oldest+uint64(at), &rooms[i])
	}
	return pubs
}

func clamp(offset, oldest uint64, count int) int {
	if offset <= oldest {
		return 0
	}
	return int(min(offset-oldest, uint64(count)))
}

// History implements broker.Broker. The slice belongs to the caller; the publications are shared and must not be
// changed. A reversed read since an offset beyond the top begins at the newest publication.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	s, err := b.enter(ctx, ch)
	if err != nil {
		return broker.History{}, err
	}
	defer s.mu.Unlock()
	now := b.now()
	c := s.channels.get(ch)
	st := b.stream(s, &c, now)
	if st == nil {
		return broker.History{Top: channel.StreamPosition{Epoch: b.epoch(s, ch, c)}}, nil
	}
	if st.entries == nil { // the changes of a map say how long it lives
		st.renewMeta(now, enginekit.PositiveOr(filter.MetaTTL, b.metaTTL))
		b.schedule(st)
	}
	return broker.History{Publications: st.read(filter), Top: st.position()}, nil
}

// Positions is Traits.Positions. Under the channel's lock, no publication is between the stream and the handler.
func (b *Broker) Positions(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
	out := make([]broker.PositionResult, len(channels))
	for i, ch := range channels {
		lock, _ := b.locate(ch)
		lock.Lock()
		h, err := b.History(ctx, ch, broker.HistoryFilter{MetaTTL: metaTTL})
		lock.Unlock()
		out[i] = broker.PositionResult{Top: h.Top, Err: err}
	}
	return out
}

// RemoveHistory implements broker.Broker. It does not renew the life of top and epoch.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	s, err := b.enter(ctx, ch)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if st := s.channels.get(ch).stream; st != nil {
		st.pubs = ring{}
	}
	return nil
}
