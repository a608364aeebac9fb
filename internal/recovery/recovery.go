// Package recovery decides which publications a returning subscriber gets (docs/recovery.md): the read of the stream,
// the reply, and the outcome if the stream has lost some. Catchup decides the same for maps, in several pages.
package recovery

import (
	"iter"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Strategy is a way to recover, without state. With any strategy, publications after the read are delivered live, from
// the top that was read.
type Strategy interface {
	// Automatic tells whether the application may start recovery for subscribers that did not ask.
	Automatic() bool
	// Latest tells whether a subscriber needs the latest publication alone, so that the application may fill an empty
	// stream.
	Latest() bool
	// Query selects the part of the stream to read.
	Query(r Request) channel.HistoryFilter
	// Resume selects the subscriber's publications. It returns false if one is lost.
	Resume(r Request, h channel.History) (Missed, bool)
	// Lost is the error for a subscriber that cannot recover; nil if it begins anew, at the top.
	Lost(r Request) error
	// Gapless tells whether publications that arrive during the subscribe must follow the read without a gap.
	Gapless() bool
}

// Request of a subscriber.
type Request struct {
	Since channel.StreamPosition
	// Limit is the most publications; < 0 for all.
	Limit int
	// Filter by tags; nil lets all pass.
	Filter func(tags map[string]string) bool
	// Reject is set if the subscriber prefers an error to beginning anew.
	Reject bool
	// Escaped is set if payloads are JSON in strings of JSON.
	Escaped bool
}

// AtMost returns the Limit for a setting that means no limit by 0.
func AtMost(setting int) int {
	if setting <= 0 {
		return -1
	}
	return setting
}

func (r *Request) passes(p *channel.Publication) bool { return r.Filter == nil || r.Filter(p.Tags) }

// elsewhere tells whether the position cannot be one of the stream with this top.
func (r *Request) elsewhere(top channel.StreamPosition) bool {
	return r.Since.Offset > top.Offset || r.Since.Epoch != "" && r.Since.Epoch != top.Epoch
}

// Missed are the publications for a subscriber that recovers.
type Missed struct {
	Publications []*channel.Publication
	// Offset is the subscriber's position in the stream's epoch, or, if its position belongs to another stream, the
	// position before the publications.
	Offset uint64
}

// Of returns the strategy of a mode.
func Of(mode channel.RecoveryMode) Strategy {
	if mode == channel.RecoverCache {
		return Cache
	}
	return Stream
}

// For returns the strategy for a subscription with options, if it recovers.
func For(o *channel.SubscribeOptions) Strategy {
	if o.Map != nil {
		return Map
	}
	return Of(o.RecoveryMode)
}

// Recovers reports whether a subscription gets what it missed. wish tells whether the client asks for it.
func Recovers(o *channel.SubscribeOptions, wish bool) bool {
	if m := o.Map; m != nil {
		return !m.Ephemeral
	}
	return o.Recoverable && (wish || o.AutoRecover && For(o).Automatic())
}

// Stream recovers all that was published since, or nothing.
var Stream Strategy = stream{}

type stream struct{}

func (stream) Automatic() bool { return false }
func (stream) Latest() bool    { return false }
func (stream) Gapless() bool   { return true }

func (stream) Query(r Request) channel.HistoryFilter {
	return channel.HistoryFilter{Since: new(r.Since), Limit: r.Limit}
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

// Cache recovers the newest publication that passes the filter, unless the subscriber is at the top already.
var Cache Strategy = cache{}

type cache struct{}

func (cache) Automatic() bool    { return true }
func (cache) Latest() bool       { return true }
func (cache) Gapless() bool      { return false } // only the latest one counts
func (cache) Lost(Request) error { return nil }

func (cache) Query(r Request) channel.HistoryFilter {
	if r.Filter == nil {
		r.Limit = 1
	}
	return channel.HistoryFilter{Reverse: true, Limit: r.Limit, AtLeast: r.Since}
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
			if r.elsewhere(h.Top) {
				m.Offset = p.Offset - 1
			}
			return m, true
		}
	}
	return m, same
}

// Map goes live with at most Request.Limit changes since the subscriber's position. If they do not follow it, the
// subscriber begins anew with the entries.
var Map Strategy = changes{}

type changes struct{ stream }

func (changes) Lost(Request) error { return protocol.ErrorUnrecoverablePosition }

// Query reads one more than the limit, which shows that there are too many.
func (changes) Query(r Request) channel.HistoryFilter {
	r.Limit++
	return stream{}.Query(r)
}

func (changes) Resume(r Request, h channel.History) (Missed, bool) {
	m, ok := stream{}.Resume(r, h)
	m.Offset = h.Top.Offset
	return m, ok && len(h.Publications) <= r.Limit
}

// Resume returns the subscriber's publications, and subtracts their size from the budget, in bytes. If they exceed it,
// the subscriber does not recover. err is the answer in place of a reply.
func Resume(s Strategy, r Request, h channel.History, budget *int) (m Missed, recovered bool, err error) {
	m, recovered = s.Resume(r, h)
	size := Sum(m.Publications)
	if r.Escaped {
		size += escapes(m.Publications)
	}
	if recovered && size <= max(*budget, 0) {
		*budget -= size
		return m, true, nil
	}
	// They would be too many for a reply at every try, so the subscriber goes on without them.
	return Missed{Offset: h.Top.Offset}, false, s.Lost(r)
}

// escapes is the bytes that payloads of JSON take in addition in a string.
func escapes(pubs []*channel.Publication) (sum int) {
	for _, p := range pubs {
		for _, c := range p.Data {
			if c < ' ' || c == '"' || c == '\\' {
				sum++
			}
		}
	}
	return sum
}

// Sum of Size.
func Sum(pubs []*channel.Publication) (sum int) {
	for _, p := range pubs {
		sum += Size(p)
	}
	return sum
}

// Size estimates the bytes of a publication in a reply; most take less.
func Size(p *channel.Publication) int {
	sum := 64 + len(p.Data) + len(p.Key)
	if len(p.Tags) > 0 { // most have none, and the beginning of an iteration is what costs most
		for k, v := range p.Tags {
			sum += 8 + len(k) + len(v)
		}
	}
	if i := p.Info; i != nil {
		sum += 64 + len(i.User) + len(i.Client) + len(i.ConnInfo) + len(i.ChanInfo)
	}
	return sum
}

// Budget is the bytes of publications in a reply of limit bytes.
func Budget(limit, subscriptions int) int { return limit - Overhead(subscriptions) }

// Overhead is the bytes of a reply without publications.
func Overhead(subscriptions int) int { return 256 + 128*subscriptions }

// Follows tells whether positions continue the stream behind top without a gap; it ignores positions up to top.
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
