package session

import (
	"time"

	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// maxBuffer is how many messages may wait for a subscribe reply; with more, the client is
// disconnected and connects again.
const maxBuffer = 4096

// Deliver implements hub.Subscriber. It is the hot path of the product.
func (b *Subscription) Deliver(m *hub.Delivery) {
	if b.state != subLive {
		b.hold(m.Message)
		return
	}
	switch m.Kind {
	case hub.KindPublication:
	case hub.KindCheck:
		b.check(m.Message)
		return
	default:
		if b.pushJoinLeave {
			b.send(m, b.form&(hub.Compact|hub.Bare))
		}
		return
	}
	if b.positioned && m.Pub.Offset > 0 {
		b.deliverPositioned(m)
		return
	}
	if b.filtered() && !b.passes(m.Pub.Tags) {
		return
	}
	b.base = 0 // this publication is not in the stream, so no patch builds on it
	b.send(m, b.form)
}

// DeliverAll implements hub.Subscriber. It takes the batch if its messages follow the
// subscriber's position and the subscriber gets all of them unchanged.
func (b *Subscription) DeliverAll(batch *hub.Batch) bool {
	if b.state != subLive || !batch.Plain() || b.filtered() || b.form&hub.Escaped != 0 {
		return false
	}
	offset := b.offset
	if b.positioned {
		var ok bool
		if offset, ok = batch.Follows(b.epoch, b.offset); !ok || b.s.cfg.PositionMaxTimeLag > 0 {
			return false
		}
	}
	frame := batch.Frame(b.s.via.Framer, b.form)
	if frame == nil || len(frame) > b.s.cfg.QueueMaxSize {
		return false
	}
	b.offset = offset
	if b.positioned {
		b.round = b.s.cfg.Rounds.Now()
	}
	b.s.push(frame)
	return true
}

// hold buffers a message until the subscribe reply is out.
func (b *Subscription) hold(m *hub.Message) {
	switch {
	case b.state != subAttaching, m.Kind == hub.KindCheck:
		return // the attach reads the position after the check
	case m.Kind != hub.KindPublication && !b.pushJoinLeave:
		return
	}
	if len(b.setup.buffer) >= maxBuffer {
		b.s.Disconnect(protocol.DisconnectInsufficientState)
		return
	}
	m.Keep()
	b.setup.buffer = append(b.setup.buffer, m)
}

// deliverPositioned follows recovery.md section 5.
func (b *Subscription) deliverPositioned(m *hub.Delivery) {
	p := m.Pub
	if lag := b.s.cfg.PositionMaxTimeLag; lag > 0 && b.s.env.Now()-p.Time*int64(time.Millisecond) > int64(lag+m.Held) {
		b.insufficientState()
		return
	}
	if m.Epoch != b.epoch {
		if b.epoch != "" {
			b.insufficientState()
			return
		}
		b.epoch = m.Epoch
	}
	if p.Offset != b.offset+1 {
		if p.Offset > b.offset {
			b.insufficientState()
		}
		return
	}
	b.offset = p.Offset
	b.round = b.s.cfg.Rounds.Now()
	if b.filtered() && !b.passes(p.Tags) {
		return
	}
	form := b.form
	if form&hub.Escaped != 0 {
		if m.Prev != nil && b.base != 0 && m.Prev.Offset == b.base {
			form |= hub.Patched
		}
		b.base = p.Offset
	}
	b.send(m, form)
}

// check compares the position with the top of the stream that the node has read
// (recovery.md section 6). The check arrives after all publications that the stream held at
// the time of the reading. So if the position has not moved since before and is not the top,
// publications were lost, on the way here or by the engine.
func (b *Subscription) check(m *hub.Message) {
	if !b.positioned || !m.Concerns(b.round) {
		return
	}
	if m.Pub.Offset != b.offset || m.Epoch != b.epoch {
		b.insufficientState()
		return
	}
	b.round = m.Round
}

// send queues the shared frame of a message.
func (b *Subscription) send(m *hub.Delivery, form hub.Form) {
	frame, err := m.Frame(b.s.via.Framer, form)
	if err != nil {
		b.s.env.Explain(commandRefused, b.channel, protocol.DisconnectInappropriateProtocol)
		b.s.Disconnect(protocol.DisconnectInappropriateProtocol)
		return
	}
	b.s.push(frame)
}

// insufficientState ends a subscription that lost its position.
func (b *Subscription) insufficientState() {
	b.s.revoke(b, protocol.DisconnectInsufficientState, protocol.UnsubscribeInsufficientState)
}
