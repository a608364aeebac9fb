package memory

import (
	"context"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

const expireBatch = 256

// Change implements broker.Maps. It holds the channel's lock, as Publish does.
func (b *Broker) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	if err := ctx.Err(); err != nil {
		return channel.MapResult{}, err
	}
	if err := broker.CheckChange(pub, &opts); err != nil {
		return channel.MapResult{}, err
	}
	lock, s := b.locate(ch)
	lock.Lock()
	defer lock.Unlock()
	if !b.lifecycle.IsRunning() {
		return channel.MapResult{}, errNotRunning
	}
	event, result, deliver := b.change(s, ch, pub, &opts, time.Now())
	if deliver {
		b.handler.HandlePublication(ch, event)
	}
	return result, nil
}

// change does everything but the delivery. The caller holds the channel's lock.
func (b *Broker) change(s *stripe, ch string, pub *channel.Publication, opts *channel.MapOptions, wall time.Time) (event broker.PublicationEvent, result channel.MapResult, deliver bool) {
	now := int64(wall.Sub(b.start))
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.IdempotencyKey != "" {
		if position, ok := s.cached(ch, opts.IdempotencyKey, now); ok {
			return event, channel.MapResult{Position: position, Suppressed: broker.SuppressIdempotency}, false
		}
	}
	c := s.channels.get(ch)
	st := b.stream(s, &c, now)
	var n *entries
	top := channel.StreamPosition{}
	if st != nil {
		n, top = st.entries, st.position()
	} else {
		top.Epoch = b.epoch(s, ch, c)
	}
	e := n.get(pub.Key)
	if result.Suppressed = suppressed(n, e, pub, opts, top.Epoch); result.Suppressed != "" {
		b.explain(st, e, opts, &result, now)
		if !opts.Ephemeral() {
			result.Position = top
		}
		return event, result, false
	}

	if st == nil {
		st = b.begin(s, ch, &c)
	}
	enginekit.Stamp(pub, wall)
	event = broker.PublicationEvent{Pub: pub}
	if e != nil && opts.Delta && !opts.Ephemeral() {
		event.Delta, event.Prev = true, e.pub
	}
	st.apply(e, pub, opts, now)
	if !opts.Ephemeral() {
		st.remember(pub, opts.StreamSize, opts.StreamTTL, now)
		st.metaUntil = forEverOr(now, opts.MetaTTL)
		event.Epoch, result.Position = st.epoch, st.position()
	}
	if b.stream(s, &c, now) != nil { // an ephemeral map ends with its last entry
		b.schedule(st)
	}
	if opts.IdempotencyKey != "" {
		b.cache(s, ch, opts.IdempotencyKey, opts.IdempotencyTTL, result.Position, now)
	}
	return event, result, c.subscribed
}

// suppressed tells why a change is not made, or returns "". e is among n, or nil.
func suppressed(n *entries, e *entry, pub *channel.Publication, opts *channel.MapOptions, epoch string) broker.SuppressReason {
	switch {
	case pub.Removed:
	case e != nil && e.outdated(pub.Version, opts.VersionEpoch):
		return broker.SuppressVersion
	case e != nil && opts.KeyMode == channel.KeyIfNew:
		return channel.SuppressKeyExists
	case e == nil && opts.KeyMode == channel.KeyIfExists:
		return channel.SuppressKeyNotFound
	}
	if x := opts.Expected; x != nil {
		var offset uint64
		if e != nil {
			offset = e.pub.Offset
		}
		if x.Offset != offset || x.Epoch != "" && x.Epoch != epoch {
			return channel.SuppressPositionMismatch
		}
	}
	switch {
	case e != nil:
	case pub.Removed:
		return channel.SuppressKeyNotFound
	case opts.MaxEntries > 0 && n.count() >= opts.MaxEntries:
		return channel.SuppressMapFull
	}
	return ""
}

func (b *Broker) explain(st *stream, e *entry, opts *channel.MapOptions, result *channel.MapResult, now int64) {
	switch {
	case e == nil:
	case result.Suppressed == channel.SuppressPositionMismatch:
		result.Current = e.pub
	case result.Suppressed == channel.SuppressKeyExists && opts.RefreshTTL:
		st.entries.prolong(e, opts.KeyTTL, now)
		if !opts.Ephemeral() {
			st.metaUntil = forEverOr(now, opts.MetaTTL)
		}
		b.schedule(st)
	}
}

func (st *stream) apply(e *entry, pub *channel.Publication, opts *channel.MapOptions, now int64) {
	if pub.Removed {
		if pub.Tags == nil {
			pub.Tags = e.pub.Tags
		}
		st.entries.remove(e)
		return
	}
	if st.entries == nil {
		st.entries = new(entries)
	}
	if e == nil {
		pub.Key = strings.Clone(pub.Key)
		e = st.entries.add(pub.Key)
	} else {
		pub.Key = e.pub.Key // the map has one copy of it
	}
	e.pub = pub
	if pub.Version > 0 {
		e.last = &version{pub.Version, strings.Clone(opts.VersionEpoch)}
	}
	st.entries.prolong(e, opts.KeyTTL, now)
	st.entries.size, st.entries.ttl, st.entries.metaTTL = opts.StreamSize, opts.StreamTTL, opts.MetaTTL
}

func (st *stream) remember(pub *channel.Publication, size int, ttl time.Duration, now int64) {
	st.top++
	pub.Offset = st.top
	st.pubs.push(compactOf(pub), size)
	st.pubsUntil = after(now, ttl)
}

// removeExpired needs the channel's lock.
func (b *Broker) removeExpired(s *stripe, st *stream, now int64) {
	for range expireBatch {
		event, deliver, ok := b.removeNext(s, st, now)
		if !ok {
			return
		}
		if deliver {
			b.handler.HandlePublication(st.channel, event)
		}
	}
}

func (b *Broker) removeNext(s *stripe, st *stream, now int64) (event broker.PublicationEvent, deliver, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels.get(st.channel)
	if at, some := st.entries.first(); !some || at > now || c.stream != st || !b.lifecycle.IsRunning() {
		return event, false, false
	}
	b.stream(s, &c, now) // the changes may be over as well
	e := st.entries.expiries[0]
	st.entries.remove(e)
	pub := &channel.Publication{Key: e.pub.Key, Removed: true, Tags: e.pub.Tags, Time: b.start.Add(time.Duration(now)).UnixMilli()}
	event.Pub = pub
	if n := st.entries; n.size > 0 {
		st.remember(pub, n.size, n.ttl, now)
		st.metaUntil = max(st.metaUntil, forEverOr(now, n.metaTTL))
		event.Epoch = st.epoch
	}
	return event, c.subscribed, true
}

// State implements broker.Maps.
func (b *Broker) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	s, err := b.enter(ctx, ch)
	if err != nil {
		return channel.State{}, err
	}
	defer s.mu.Unlock()
	c := s.channels.get(ch)
	st := b.stream(s, &c, b.now())
	if st == nil {
		return channel.State{Top: channel.StreamPosition{Epoch: b.epoch(s, ch, c)}}, nil
	}
	out := channel.State{Top: st.position(), Count: st.entries.count()}
	if filter.Key != "" {
		if e := st.entries.get(filter.Key); e != nil {
			out.Entries = []*channel.Publication{e.pub}
		}
		return out, nil
	}
	out.Entries, out.Cursor = st.entries.page(filter.Cursor, filter.Limit)
	return out, nil
}

// Clear implements broker.Maps.
func (b *Broker) Clear(ctx context.Context, ch string) error {
	lock, _ := b.locate(ch)
	lock.Lock()
	defer lock.Unlock()
	s, err := b.enter(ctx, ch)
	if err != nil {
		return err
	}
	c := s.channels.get(ch)
	had := c.stream != nil
	if had {
		b.end(s, &c)
	}
	s.mu.Unlock()
	if had && c.subscribed {
		b.handler.HandleLoss(func(lost string) bool { return lost == ch })
	}
	return nil
}

// forEverOr returns the end of a ttl that begins now; 0 is for ever.
func forEverOr(now int64, ttl time.Duration) int64 {
	if ttl <= 0 {
		ttl = 1<<63 - 1
	}
	return after(now, ttl)
}
