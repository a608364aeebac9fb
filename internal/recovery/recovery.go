// Package recovery decides what a subscriber that comes back gets of the channel
// (recovery.md section 4): what is read for it, what of that it is sent with the reply,
// and what becomes of one that has missed more than can be made up for.
package recovery

import (
	"iter"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Strategy is a way to recover. It is a value without state, shared by all
// subscriptions. What is published after the read is delivered live, whatever the
// strategy: the live rule begins at the top as it was read.
type Strategy interface {
	// Automatic tells whether the application may have subscribers recover that did not
	// ask for it.
	Automatic() bool
	// Query is what is read of the stream.
	Query(r Request) channel.HistoryFilter
	// Resume returns what the subscriber gets of what was read; false if something that
	// it needs is lost.
	Resume(r Request, h channel.History) (Missed, bool)
	// Lost is what a subscriber gets instead of a reply if something is lost; nil if it
	// begins anew, at the top.
	Lost(r Request) error
	// Gapless tells whether publications that arrive during the subscribe must follow
	// what was read, because the subscriber relies on each of them.
	Gapless() bool
}

// Request of a subscriber.
type Request struct {
	// Since is the position that it has, which may be empty.
	Since channel.StreamPosition
	// Limit is the most publications that are recovered; < 0 for all.
	Limit int
	// Filter tells whether the subscriber gets publications with the tags; nil lets all
	// pass.
	Filter func(tags map[string]string) bool
	// Reject is set if the subscriber prefers an error to beginning anew.
	Reject bool
}

func (r *Request) passes(p *channel.Publication) bool { return r.Filter == nil || r.Filter(p.Tags) }

// Missed is what a subscriber gets that recovers.
type Missed struct {
	Publications []*channel.Publication
	// Offset is what it is told beside them, and has if there are none.
	Offset uint64
}

// Of returns the strategy of a mode.
func Of(mode channel.RecoveryMode) Strategy {
	if mode == channel.RecoverCache {
		return Cache
	}
	return Stream
}

// Stream recovers all that was published since, or nothing (recovery.md 4.3).
var Stream Strategy = stream{}

type stream struct{}

func (stream) Automatic() bool { return false }
func (stream) Gapless() bool   { return true }

func (stream) Query(r Request) channel.HistoryFilter {
	return channel.HistoryFilter{Since: &channel.StreamPosition{Offset: r.Since.Offset}, Limit: r.Limit}
}

func (stream) Resume(r Request, h channel.History) (Missed, bool) {
	pubs, m := h.Publications, Missed{Offset: r.Since.Offset}
	switch {
	case r.Since.Epoch != "" && r.Since.Epoch != h.Top.Epoch:
		return m, false
	case len(pubs) == 0:
		return m, h.Top.Offset == r.Since.Offset
	case pubs[0].Offset != r.Since.Offset+1 || pubs[len(pubs)-1].Offset != h.Top.Offset:
		return m, false
	case r.Filter == nil:
		m.Publications = pubs
		return m, true
	}
	for _, p := range pubs {
		if r.passes(p) {
			m.Publications = append(m.Publications, p)
		}
	}
	return m, true
}

func (stream) Lost(r Request) error {
	if r.Reject {
		return protocol.ErrorUnrecoverablePosition
	}
	return nil
}

// Cache recovers the newest publication that the subscriber gets, unless it is at the top
// already (recovery.md 4.4).
var Cache Strategy = cache{}

type cache struct{}

func (cache) Automatic() bool    { return true }
func (cache) Gapless() bool      { return false } // only the latest one counts
func (cache) Lost(Request) error { return nil }

func (cache) Query(r Request) channel.HistoryFilter {
	if r.Filter == nil {
		r.Limit = 1
	}
	return channel.HistoryFilter{Reverse: true, Limit: r.Limit}
}

func (cache) Resume(r Request, h channel.History) (Missed, bool) {
	pubs, m := h.Publications, Missed{Offset: r.Since.Offset}
	same := r.Since.Offset > 0 && r.Since == h.Top
	for i, p := range pubs {
		switch {
		case !r.passes(p):
		case pubs[0].Offset != h.Top.Offset:
			return m, false
		case same:
			return m, true
		default:
			m.Publications = pubs[i : i+1 : i+1]
			return m, true
		}
	}
	return m, same
}

// Resume has the strategy say what the subscriber gets, if that takes no more than budget
// bytes, from which it is subtracted. The error is what the subscriber gets instead of a
// reply.
func Resume(s Strategy, r Request, h channel.History, budget *int) (m Missed, recovered bool, err error) {
	m, recovered = s.Resume(r, h)
	if size := size(m.Publications); recovered && size <= max(*budget, 0) {
		*budget -= size
		return m, true, nil
	}
	// What is too much for a reply would be so at every try. As beyond the limit, the
	// subscriber has to get along without.
	return Missed{Offset: h.Top.Offset}, false, s.Lost(r)
}

// size is how many bytes publications take in a reply, roughly, and rather too many.
func size(pubs []*channel.Publication) (sum int) {
	for _, p := range pubs {
		sum += 64 + len(p.Data)
		for k, v := range p.Tags {
			sum += 8 + len(k) + len(v)
		}
		if i := p.Info; i != nil {
			sum += 64 + len(i.User) + len(i.Client) + len(i.ConnInfo) + len(i.ChanInfo)
		}
	}
	return sum
}

// Budget returns how many bytes of publications a reply with so many subscriptions may
// have if it must not have more than limit.
func Budget(limit, subscriptions int) int { return limit - 256 - 128*subscriptions }

// Follows tells whether publications at these positions leave no gap behind top. Those up
// to it do not count.
func Follows(top channel.StreamPosition, arrived iter.Seq[channel.StreamPosition]) bool {
	next := top.Offset + 1
	for p := range arrived {
		switch {
		case p.Epoch != top.Epoch && top.Epoch != "":
			return false
		case p.Offset > next:
			return false
		case p.Offset == next:
			next++
		}
	}
	return true
}
