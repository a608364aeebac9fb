package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/protocol"
)

// recovered builds the subscribe result from what was read of the stream
// (recovery.md section 4). The tracked position becomes the top as read; what
// was buffered beyond it is delivered behind the reply, so nothing is merged.
// budget is how many bytes the publications may take; what is recovered is subtracted.
// The error is the reply or the disconnect that the client gets instead.
func (b *Subscription) recovered(it *AttachItem, budget *int) (*protocol.SubscribeResult, error) {
	req, opts := b.setup.request, b.setup.opts
	r := b.result(it)
	r.WasRecovering = req.Recover || b.setup.recover
	initial := opts.Publications
	if !b.positioned {
		var err error
		r.Publications, err = hub.Results(initial, b.form, b.s.via.Framer.Encoding())
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
		if pubs, ok = b.missed(it); ok {
			if size := recovery.Size(pubs); size <= max(*budget, 0) {
				*budget -= size
			} else {
				// The reply would be too much for the queue at every try. As beyond the
				// recovery limit, the client has to get along without.
				pubs, ok = nil, false
			}
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
	r.Publications, err = hub.Results(pubs, b.form, b.s.via.Framer.Encoding())
	return r, err
}

// recoveredAlone is recovered for a reply with no other subscription.
func (b *Subscription) recoveredAlone(it *AttachItem) (*protocol.SubscribeResult, error) {
	budget := recovery.Budget(b.s.cfg.QueueMaxSize, 1)
	return b.recovered(it, &budget)
}

// missed decides on recovery and returns what the client has to get.
func (b *Subscription) missed(it *AttachItem) ([]*channel.Publication, bool) {
	since := channel.StreamPosition{Offset: b.setup.request.Offset, Epoch: b.setup.request.Epoch}
	var filter recovery.Filter
	if b.filtered() {
		filter = b.passes
	}
	if b.setup.opts.RecoveryMode == channel.RecoverCache {
		return recovery.Latest(it.Publications, it.Top, since, filter)
	}
	return recovery.Missed(it.Publications, it.Top, since, filter)
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
