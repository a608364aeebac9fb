package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// store is what the server of the reference engine keeps. It is written from package broker's words: slices and plain
// loops. Times are since the begin of the run.
type store struct {
	streams  map[string]*streamData
	presence map[string]map[string]present
	results  map[string]result // by channel and idempotency key
	maps     map[string]*mapData
	epochs   *int // of all stores of a run: no epoch comes twice
}

type streamData struct {
	epoch        string
	top          uint64
	pubs         []*channel.Publication
	version      uint64
	versionEpoch string
	until, meta  time.Duration
}

type present struct {
	info  *channel.ClientInfo
	until time.Duration
}

type result struct {
	position channel.StreamPosition
	until    time.Duration
}

func newStore() *store {
	return &store{streams: map[string]*streamData{}, presence: map[string]map[string]present{}, results: map[string]result{}, maps: map[string]*mapData{}, epochs: new(int)}
}

// clone is the state of a replica. Publications are immutable.
func (s *store) clone() *store {
	c := newStore()
	c.epochs = s.epochs
	for ch, st := range s.streams {
		copied := *st
		copied.pubs = slices.Clone(st.pubs)
		c.streams[ch] = &copied
	}
	for ch, clients := range s.presence {
		c.presence[ch] = map[string]present{}
		for id, p := range clients {
			c.presence[ch][id] = p
		}
	}
	for k, r := range s.results {
		c.results[k] = r
	}
	for ch, m := range s.maps {
		c.maps[ch] = m.clone()
	}
	return c
}

// stream returns the stream of a channel. With metaTTL above 0 it is made, or lives on for that long at least.
func (s *store) stream(now time.Duration, ch string, metaTTL time.Duration) *streamData {
	st := s.streams[ch]
	if st != nil && st.meta <= now {
		delete(s.streams, ch)
		st = nil
	}
	if st == nil {
		*s.epochs++
		st = &streamData{epoch: fmt.Sprintf("ep%d", *s.epochs)}
		s.streams[ch] = st
	}
	if st.until <= now {
		st.pubs = nil
	}
	st.meta = max(st.meta, now+cmp.Or(metaTTL, time.Hour))
	return st
}

func (st *streamData) position() channel.StreamPosition {
	return channel.StreamPosition{Offset: st.top, Epoch: st.epoch}
}

// publish returns the event for the subscribers; nil if the publication is suppressed.
func (s *store) publish(now time.Duration, ch string, pub *channel.Publication, o broker.PublishOptions) (broker.PublishResult, *broker.PublicationEvent) {
	key := ch + "\n" + o.IdempotencyKey
	if r, ok := s.results[key]; ok && o.IdempotencyKey != "" && r.until > now {
		return broker.PublishResult{Position: r.position, Suppressed: broker.SuppressIdempotency}, nil
	}
	var res broker.PublishResult
	event := &broker.PublicationEvent{Pub: pub, Delta: o.Delta}
	if o.HistorySize > 0 && o.HistoryTTL > 0 && !o.SkipHistory {
		st := s.stream(now, ch, o.HistoryMetaTTL)
		if v := pub.Version; v > 0 && v <= st.version && (o.VersionEpoch == "" || o.VersionEpoch == st.versionEpoch) {
			return broker.PublishResult{Position: st.position(), Suppressed: broker.SuppressVersion}, nil
		}
		if pub.Version > 0 {
			st.version, st.versionEpoch = pub.Version, o.VersionEpoch
		}
		if o.Delta && len(st.pubs) > 0 {
			event.Prev = st.pubs[len(st.pubs)-1]
		}
		st.append(now, pub, o.HistorySize, o.HistoryTTL)
		event.Epoch, res.Position = st.epoch, st.position()
	}
	if o.IdempotencyKey != "" {
		s.results[key] = result{res.Position, now + cmp.Or(o.IdempotencyTTL, time.Minute)}
	}
	return res, event
}

func (s *store) history(now time.Duration, ch string, f broker.HistoryFilter) broker.History {
	st := s.stream(now, ch, f.MetaTTL)
	list := slices.Clone(st.pubs)
	if f.Reverse {
		slices.Reverse(list)
	}
	if f.Since != nil {
		list = slices.DeleteFunc(list, func(p *channel.Publication) bool {
			if f.Reverse {
				return p.Offset >= f.Since.Offset
			}
			return p.Offset <= f.Since.Offset
		})
	}
	if f.Limit >= 0 && f.Limit < len(list) {
		list = list[:f.Limit]
	}
	return broker.History{Publications: list, Top: st.position()}
}

func (s *store) add(now, ttl time.Duration, ch string, info *channel.ClientInfo) {
	if s.presence[ch] == nil {
		s.presence[ch] = map[string]present{}
	}
	s.presence[ch][info.Client] = present{info, now + ttl}
}

func (s *store) remove(ch, client string) { delete(s.presence[ch], client) }

func (s *store) present(now time.Duration, ch string) map[string]*channel.ClientInfo {
	found := map[string]*channel.ClientInfo{}
	for id, p := range s.presence[ch] {
		if p.until > now {
			found[id] = p.info
		}
	}
	return found
}
