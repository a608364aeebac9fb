package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// mapData has the entries of a map. Its changes are in the stream of the channel.
type mapData struct {
	entries map[string]entry
	last    channel.MapOptions // of the entry that was set last
}

type entry struct {
	pub          *channel.Publication
	version      uint64
	versionEpoch string
	until        time.Duration // 0: for ever
}

func (m *mapData) clone() *mapData { return &mapData{maps.Clone(m.entries), m.last} }

// change returns the event for the subscribers; nil if the change is suppressed.
func (s *store) change(now time.Duration, ch string, pub *channel.Publication, o channel.MapOptions) (channel.MapResult, *broker.PublicationEvent) {
	key := ch + "\n" + o.IdempotencyKey
	if r, ok := s.results[key]; ok && o.IdempotencyKey != "" && r.until > now {
		return channel.MapResult{Position: r.position, Suppressed: broker.SuppressIdempotency}, nil
	}
	m := s.maps[ch]
	if m == nil {
		m = &mapData{entries: map[string]entry{}}
		s.maps[ch] = m
	}
	st := s.stream(now, ch, o.MetaTTL)
	var res channel.MapResult
	if !o.Ephemeral() {
		res.Position = st.position()
	}
	e, exists := m.entries[pub.Key]
	if res.Suppressed = m.suppressed(pub, &o, st.epoch); res.Suppressed != "" {
		switch {
		case res.Suppressed == channel.SuppressPositionMismatch && exists:
			res.Current = e.pub
		case res.Suppressed == channel.SuppressKeyExists && o.RefreshTTL:
			e.until = end(now, o.KeyTTL)
			m.entries[pub.Key] = e
		}
		return res, nil
	}
	event := &broker.PublicationEvent{Pub: pub}
	if exists && o.Delta && !o.Ephemeral() {
		event.Delta, event.Prev = true, e.pub
	}
	m.apply(now, pub, &o)
	if !o.Ephemeral() {
		st.append(now, pub, o.StreamSize, o.StreamTTL)
		event.Epoch, res.Position = st.epoch, st.position()
	}
	if o.IdempotencyKey != "" {
		s.results[key] = result{res.Position, now + cmp.Or(o.IdempotencyTTL, time.Minute)}
	}
	return res, event
}

func (m *mapData) suppressed(pub *channel.Publication, o *channel.MapOptions, epoch string) channel.SuppressReason {
	e, exists := m.entries[pub.Key]
	if !pub.Removed {
		switch {
		case exists && pub.Version > 0 && pub.Version <= e.version && o.VersionEpoch == e.versionEpoch:
			return channel.SuppressVersion
		case exists && o.KeyMode == channel.KeyIfNew:
			return channel.SuppressKeyExists
		case !exists && o.KeyMode == channel.KeyIfExists:
			return channel.SuppressKeyNotFound
		}
	}
	if x := o.Expected; x != nil {
		at := uint64(0)
		if exists {
			at = e.pub.Offset
		}
		if x.Offset != at || x.Epoch != "" && x.Epoch != epoch {
			return channel.SuppressPositionMismatch
		}
	}
	switch {
	case pub.Removed && !exists:
		return channel.SuppressKeyNotFound
	case !exists && o.MaxEntries > 0 && len(m.entries) >= o.MaxEntries:
		return channel.SuppressMapFull
	}
	return ""
}

func (m *mapData) apply(now time.Duration, pub *channel.Publication, o *channel.MapOptions) {
	e := m.entries[pub.Key]
	if pub.Removed {
		if pub.Tags == nil {
			pub.Tags = e.pub.Tags
		}
		delete(m.entries, pub.Key)
		return
	}
	e.pub, e.until = pub, end(now, o.KeyTTL)
	if pub.Version > 0 {
		e.version, e.versionEpoch = pub.Version, o.VersionEpoch
	}
	m.entries[pub.Key], m.last = e, *o
}

func end(now, ttl time.Duration) time.Duration {
	if ttl == 0 {
		return 0
	}
	return now + ttl
}

// append adds a publication to the stream.
func (st *streamData) append(now time.Duration, pub *channel.Publication, size int, ttl time.Duration) {
	st.top++
	pub.Offset = st.top
	st.pubs = append(st.pubs, pub)
	st.pubs = st.pubs[max(0, len(st.pubs)-size):]
	st.until = now + ttl
}

// expire removes an entry whose time is over; nil if there is none.
func (s *store) expire(now time.Duration, ch string) *broker.PublicationEvent {
	m := s.maps[ch]
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		e := m.entries[key]
		if e.until == 0 || e.until > now {
			continue
		}
		pub := &channel.Publication{Key: key, Removed: true, Tags: e.pub.Tags, Time: time.Now().UnixMilli()}
		event := &broker.PublicationEvent{Pub: pub}
		delete(m.entries, key)
		if !m.last.Ephemeral() {
			st := s.stream(now, ch, m.last.MetaTTL)
			st.append(now, pub, m.last.StreamSize, m.last.StreamTTL)
			event.Epoch = st.epoch
		}
		return event
	}
	return nil
}

func (s *store) state(now time.Duration, ch string, f channel.StateFilter) channel.State {
	out := channel.State{Top: s.stream(now, ch, 0).position()}
	m := s.maps[ch]
	if m == nil {
		return out
	}
	out.Count = len(m.entries)
	if f.Key != "" {
		if e, ok := m.entries[f.Key]; ok {
			out.Entries = []*channel.Publication{e.pub}
		}
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		switch {
		case key <= f.Cursor:
		case f.Limit >= 0 && len(out.Entries) >= f.Limit:
			if f.Limit > 0 {
				out.Cursor = out.Entries[f.Limit-1].Key
			}
			return out
		default:
			out.Entries = append(out.Entries, m.entries[key].pub)
		}
	}
	return out
}

// sweep removes expired entries of all maps, again and again. It rests while the maps are compared.
func (e *engine) sweep() {
	if !e.down && !e.resting {
		for _, ch := range slices.Sorted(maps.Keys(e.store.maps)) {
			for event := e.store.expire(e.now(), ch); event != nil; event = e.store.expire(e.now(), ch) {
				e.log.add("engine", "%s of %s has expired", event.Pub.Key, ch)
				e.publish(ch, event.Epoch != "", func(h broker.EventHandler) { h.HandlePublication(ch, *event) })
			}
		}
	}
	e.after(time.Second, "engine sweep", e.sweep)
}

// returned tells which maps have lost something when the replica old has become the store.
func (s *store) returned(old *store, lost map[string]bool) {
	for ch := range old.streams {
		if s.streams[ch] == nil { // it was cleared
			lost[ch] = true
			delete(old.streams, ch)
		}
	}
	for ch := range lost { // the stream has another epoch, and the entries are gone with it
		delete(old.maps, ch)
	}
	for ch, m := range s.maps {
		switch o := old.maps[ch]; {
		case lost[ch]:
		case o == nil:
			lost[ch] = true
		case !maps.EqualFunc(m.entries, o.entries, func(a, b entry) bool { return a.pub == b.pub }):
			lost[ch] = true
		}
	}
}

// keeper is the maps of a link.
type keeper link

// Change implements broker.Maps.
func (k *keeper) Change(ctx context.Context, ch string, pub *channel.Publication, o channel.MapOptions) (res channel.MapResult, err error) {
	if err := broker.CheckChange(pub, &o); err != nil {
		return res, err
	}
	l := (*link)(k)
	err = l.call(ctx, changeKey(ch, pub, o), func() error {
		copied := *pub
		if copied.Time == 0 {
			copied.Time = time.Now().UnixMilli()
		}
		l.e.book.done(ch, changeText(pub.Key, string(pub.Data), pub.Removed))
		var event *broker.PublicationEvent
		if res, event = l.e.store.change(l.e.now(), ch, &copied, o); event != nil {
			l.e.publish(ch, event.Epoch != "", func(h broker.EventHandler) { h.HandlePublication(ch, *event) })
		}
		return nil
	})
	return res, err
}

func changeKey(ch string, pub *channel.Publication, o channel.MapOptions) string {
	return fmt.Sprintf("change %s %s %v %s %s", ch, pub.Key, pub.Removed, o.KeyMode, pub.Data)
}

func stateKey(ch string, f channel.StateFilter) string {
	return fmt.Sprintf("state %s %q %q %d", ch, f.Key, f.Cursor, f.Limit)
}

// State implements broker.Maps.
func (k *keeper) State(ctx context.Context, ch string, f channel.StateFilter) (st channel.State, err error) {
	l := (*link)(k)
	err = l.call(ctx, stateKey(ch, f), func() error {
		st = l.e.store.state(l.e.now(), ch, f)
		return nil
	})
	return st, err
}

// Clear implements broker.Maps.
func (k *keeper) Clear(ctx context.Context, ch string) error {
	l := (*link)(k)
	return l.call(ctx, "clear "+ch, func() error {
		delete(l.e.store.maps, ch)
		delete(l.e.store.streams, ch)
		for _, o := range l.e.links {
			if o.subscribed[ch] && !o.cut {
				o.event(func(h broker.EventHandler) { h.HandleLoss(func(lost string) bool { return lost == ch }) })
			}
		}
		return nil
	})
}
