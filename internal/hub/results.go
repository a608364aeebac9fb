package hub

import (
	"slices"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// Results holds the publications for the result of a command.
type Results struct {
	list []*protocol.Publication
	all  []protocol.Publication
}

// keepResults is how many publications a reset leaves room for.
const keepResults = 64

// Reset drops the publications, and keeps the room for the next ones.
func (r *Results) Reset() {
	if len(r.all) > keepResults {
		*r = Results{}
	}
	clear(r.all)
}

// Whole is Make without patches, for publications that do not follow one another. In the form Escaped, each
// is as one that is sent in full.
func (r *Results) Whole(pubs []*channel.Publication, form Form, e protocol.Encoding) ([]*protocol.Publication, error) {
	return r.make(pubs, form, e, func(*channel.Publication) *channel.Publication { return nil })
}

// Make returns publications for the result of a command, in a form. They are valid until the
// next call of Make or Reset. In the form Escaped, each is a patch of the one before, which with keys is the
// one before with its key. The error is a protocol.Disconnect if a payload does not fit the encoding.
func (r *Results) Make(pubs []*channel.Publication, form Form, e protocol.Encoding) ([]*protocol.Publication, error) {
	if form&Escaped == 0 {
		return r.make(pubs, form, e, nil)
	}
	before := make(map[string]*channel.Publication, 1)
	return r.make(pubs, form, e, func(p *channel.Publication) *channel.Publication {
		base := before[p.Key]
		before[p.Key] = p
		return base
	})
}

// make is Make; base returns what a publication may be a patch of.
func (r *Results) make(pubs []*channel.Publication, form Form, e protocol.Encoding, base func(*channel.Publication) *channel.Publication) ([]*protocol.Publication, error) {
	if len(pubs) == 0 {
		return nil, nil
	}
	r.Reset()
	r.list = slices.Grow(r.list[:0], len(pubs))
	r.all = slices.Grow(r.all[:0], len(pubs))[:len(pubs)]
	for i, p := range pubs {
		q := &r.all[i]
		fillPublication(q, p)
		r.list = append(r.list, q)
		if form&Escaped == 0 {
			if e == protocol.JSON && !q.DataChecked && len(q.Data) > 0 {
				ok, lines := jsonwire.Check(q.Data)
				if q.DataChecked = !lines; !ok {
					return nil, protocol.DisconnectInappropriateProtocol
				}
			}
			continue
		}
		var patch, text []byte
		var err error
		if q.Data, q.Delta, err = deltaData(&patch, &text, e, base(p), p); err != nil {
			return nil, protocol.DisconnectInappropriateProtocol
		}
		q.DataChecked = true
	}
	return r.list, nil
}
