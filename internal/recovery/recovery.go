// Package recovery decides what a subscriber that comes back has missed, from what was
// read of the stream (recovery.md section 4).
package recovery

import "github.com/gyrohq/gyro/channel"

// Filter tells whether the subscriber gets publications with the tags; nil lets all pass.
type Filter func(tags map[string]string) bool

func (f Filter) passes(p *channel.Publication) bool { return f == nil || f(p.Tags) }

// Missed returns what follows the position since in a stream with the top, of which pubs
// was read: all behind since, if the stream still has it. It is false if something of that
// is lost.
func Missed(pubs []*channel.Publication, top, since channel.StreamPosition, f Filter) ([]*channel.Publication, bool) {
	switch {
	case since.Epoch != "" && since.Epoch != top.Epoch:
		return nil, false
	case len(pubs) == 0:
		return nil, top.Offset == since.Offset
	case pubs[0].Offset != since.Offset+1 || pubs[len(pubs)-1].Offset != top.Offset:
		return nil, false
	case f == nil:
		return pubs, true
	}
	var kept []*channel.Publication
	for _, p := range pubs {
		if f.passes(p) {
			kept = append(kept, p)
		}
	}
	return kept, true
}

// Latest returns the newest publication that the subscriber gets, unless it is at the top
// already (recovery.md 4.4). pubs begins with the newest one. It is false if the stream
// has lost its newest publication, or there is none.
func Latest(pubs []*channel.Publication, top, since channel.StreamPosition, f Filter) ([]*channel.Publication, bool) {
	same := since.Offset > 0 && since == top
	for i, p := range pubs {
		switch {
		case !f.passes(p):
		case pubs[0].Offset != top.Offset:
			return nil, false
		case same:
			return nil, true
		default:
			return pubs[i : i+1 : i+1], true
		}
	}
	return nil, same
}

// Size is how many bytes publications take in a reply, roughly, and rather too many.
func Size(pubs []*channel.Publication) (sum int) {
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
