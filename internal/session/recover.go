package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// recovered builds the subscribe result from what was read of the stream
// (recovery.md section 4). The tracked position becomes the top as read; what
// was buffered beyond it is delivered behind the reply, so nothing is merged.
// The error is the reply or the disconnect that the client gets instead.
func (b *Subscription) recovered(it *AttachItem) (*protocol.SubscribeResult, error) {
	req, opts := b.setup.request, b.setup.opts
	r := b.result(it)
	r.WasRecovering = req.Recover || b.setup.recover
	initial := opts.Publications
	if !b.positioned {
		var err error
		r.Publications, err = b.publications(initial)
		return r, err
	}
	b.offset, b.epoch = it.Top.Offset, it.Top.Epoch
	if !b.contiguous() {
		return nil, protocol.DisconnectInsufficientState
	}
	r.Epoch, r.Offset = it.Top.Epoch, it.Top.Offset
	var pubs []*channel.Publication
	if b.setup.recover {
		var ok bool
		if pubs, ok = b.missed(it); ok && size(pubs) > b.s.cfg.QueueMaxSize {
			// The reply would be too much for the queue at every try. As beyond the
			// recovery limit, the client has to get along without.
			pubs, ok = nil, false
		}
		if !ok && req.Flag&flagReject != 0 && opts.RecoveryMode == channel.RecoverStream {
			return nil, protocol.ErrorUnrecoverablePosition
		}
		if ok {
			// The client's own offset: applying the publications leads to the right
			// position (recovery.md 4.6).
			r.Recovered, r.Offset = true, req.Offset
		}
	}
	if len(pubs) == 0 {
		// What the application supplies need not be of the stream: no base.
		pubs = initial
	} else {
		b.base = pubs[len(pubs)-1].Offset
	}
	var err error
	r.Publications, err = b.publications(pubs)
	return r, err
}

// missed decides on recovery and returns what the client has to get.
func (b *Subscription) missed(it *AttachItem) ([]*channel.Publication, bool) {
	if b.setup.opts.RecoveryMode == channel.RecoverCache {
		return b.latest(it)
	}
	pubs, top, req := it.Publications, it.Top, b.setup.request
	switch {
	case req.Epoch != "" && req.Epoch != top.Epoch:
		return nil, false
	case len(pubs) == 0:
		return nil, top.Offset == req.Offset
	case pubs[0].Offset != req.Offset+1 || pubs[len(pubs)-1].Offset != top.Offset:
		return nil, false
	case !b.filtered():
		return pubs, true
	}
	var kept []*channel.Publication
	for _, p := range pubs {
		if b.passes(p.Tags) {
			kept = append(kept, p)
		}
	}
	return kept, true
}

// latest is cache recovery (recovery.md 4.4).
func (b *Subscription) latest(it *AttachItem) ([]*channel.Publication, bool) {
	req, top := b.setup.request, it.Top
	same := req.Offset > 0 && req.Offset == top.Offset && req.Epoch == top.Epoch
	var match *channel.Publication
	for _, p := range it.Publications { // newest first
		if b.passes(p.Tags) {
			match = p
			break
		}
	}
	switch {
	case match == nil:
		return nil, same
	case it.Publications[0].Offset != top.Offset:
		return nil, false
	case same:
		return nil, true
	}
	return []*channel.Publication{match}, true
}

// contiguous tells whether the buffered publications continue the position that
// was read. If not, one was lost before the client is even subscribed. In cache
// mode only the latest one counts.
func (b *Subscription) contiguous() bool {
	if b.setup.opts.RecoveryMode == channel.RecoverCache {
		return true
	}
	next := b.offset + 1
	for _, m := range b.setup.buffer {
		if m.Kind != hub.KindPublication || m.Pub.Offset == 0 {
			continue
		}
		switch {
		case m.Epoch != b.epoch && b.epoch != "":
			return false
		case m.Pub.Offset > next:
			return false
		case m.Pub.Offset == next:
			next++
		}
	}
	return true
}

// size is what publications take in a reply, roughly.
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

// publications encodes publications of a subscribe result. With delta, each is a
// patch of the one before.
func (b *Subscription) publications(pubs []*channel.Publication) ([]*protocol.Publication, error) {
	if len(pubs) == 0 {
		return nil, nil
	}
	out := make([]*protocol.Publication, len(pubs))
	var prev *channel.Publication
	for i, p := range pubs {
		q := new(protocol.Publication)
		hub.FillPublication(q, p)
		q.Info = (*protocol.ClientInfo)(p.Info)
		if b.form&hub.Escaped != 0 {
			var (
				patch, text []byte
				err         error
			)
			q.Data, q.Delta, err = hub.DeltaData(&patch, &text, b.s.via.Framer.Encoding(), prev, p)
			if err != nil {
				return nil, protocol.DisconnectInappropriateProtocol
			}
			prev = p
		}
		out[i] = q
	}
	return out, nil
}
