package hub

import (
	"slices"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/wire/jsonwire"
)

// Results are the publications for the result of a command.
type Results struct {
	// LeftOut is how many publications the last result lacks, because they do not fit the client's JSON.
	LeftOut int

	list []*protocol.Publication
	all  []protocol.Publication
}

const keepResults = 64

// Reset drops the publications, and keeps room for 64.
func (r *Results) Reset() {
	if len(r.all) > keepResults {
		*r = Results{}
	}
	clear(r.all)
	r.LeftOut = 0
}

// Whole is Make without patches, for publications that do not follow one another.
func (r *Results) Whole(pubs []*channel.Publication, form Form, e protocol.Encoding) []*protocol.Publication {
	return r.make(pubs, form, e, func(*channel.Publication) *channel.Publication { return nil })
}

// Make returns publications in a form, valid until the next Make or Reset, without those that do not fit the encoding.
// In the form Escaped, each is a patch of the one before, or with keys of the one before with its key.
func (r *Results) Make(pubs []*channel.Publication, form Form, e protocol.Encoding) []*protocol.Publication {
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

func (r *Results) make(pubs []*channel.Publication, form Form, e protocol.Encoding, base func(*channel.Publication) *channel.Publication) []*protocol.Publication {
	r.LeftOut = 0
	if len(pubs) == 0 {
		return nil
	}
	r.Reset()
	r.list = slices.Grow(r.list[:0], len(pubs))
	r.all = slices.Grow(r.all[:0], len(pubs))[:len(pubs)]
	for i, p := range pubs {
		q := &r.all[i]
		fillPublication(q, p)
		if !encodable(q, p, form, e, base) {
			r.LeftOut++
			continue
		}
		r.list = append(r.list, q)
	}
	return r.list
}

// JSON can have a payload that is missing.
func isJSON(data []byte) bool { return len(data) == 0 || jsonwire.Valid(data) }

func encodable(q *protocol.Publication, p *channel.Publication, form Form, e protocol.Encoding, base func(*channel.Publication) *channel.Publication) (ok bool) {
	if e == protocol.JSON && q.Info != nil && !(isJSON(q.Info.ConnInfo) && isJSON(q.Info.ChanInfo)) {
		return false
	}
	if form&Escaped != 0 {
		var patch, text []byte
		var err error
		q.Data, q.Delta, err = deltaData(&patch, &text, e, base(p), p)
		q.DataChecked = true
		return err == nil
	}
	if e != protocol.JSON || q.DataChecked || len(q.Data) == 0 {
		return true
	}
	ok, lines := jsonwire.Check(q.Data)
	q.DataChecked = !lines
	return ok
}
