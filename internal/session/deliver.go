package session

import (
	"time"

	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/position"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Deliver implements hub.Subscriber. It is the hot path of the product.
func (b *Subscription) Deliver(m *hub.Delivery) {
	if b.state != subLive {
		b.bufferMessage(m.Message)
		return
	}
	switch m.Kind {
	case hub.KindPublication:
	case hub.KindCheck:
		if !b.terms.Keys.Current(m.Message) || b.terms.Keys == nil && !b.at.Check(m.Message) {
			b.insufficientState(flightrecorder.ByCheck, m.Epoch)
		}
		return
	default:
		if b.pushJoinLeave {
			b.send(m, b.at.Form&(hub.Compact|hub.Bare))
		}
		return
	}
	if b.at.Positioned && m.Pub.Offset > 0 {
		b.deliverPositioned(m)
		return
	}
	if b.terms.Filtered() && !b.terms.Passes(m.Pub.Tags) {
		m.Filtered++
		return
	}
	b.at.Received(0)
	b.send(m, b.at.Form)
}

// DeliverAll implements hub.Subscriber. It takes the batch if its messages follow the subscriber's position and need no
// change. If no position can miss a publication, it delivers only those that a latest batch leaves.
func (b *Subscription) DeliverAll(batch *hub.Batch) bool {
	if batch.Latest() && b.state == subLive && !b.at.Positioned {
		batch.Newest(b.terms.Lets, b.Deliver)
		return true
	}
	if !b.takesBatches() || !batch.Plain() {
		return false
	}
	offset := b.at.Offset
	if b.at.Positioned {
		var ok bool
		if offset, ok = batch.Follows(b.at.Epoch, offset); !ok || b.s.cfg.PositionMaxTimeLag > 0 {
			return false
		}
	}
	frame := batch.Frame(b.s.via.Framer, b.at.Form, b.s.cfg.QueueMaxSize)
	if frame == nil {
		return false
	}
	b.at.Offset = offset
	if b.at.Positioned {
		b.at.Confirm(b.s.cfg.Rounds.Now())
	}
	b.s.push(frame)
	return true
}

// takesBatches reports whether the subscriber can get many messages in one frame.
func (b *Subscription) takesBatches() bool {
	switch {
	case b.state != subLive:
		return false
	case b.terms.Filtered(), b.s.cfg.Taps.Watches(b.s): // which look at each message
		return false
	case b.at.Form&hub.Escaped != 0: // a patch builds on the message before it
		return false
	case b.at.Form&hub.Bookmarked != 0: // a bookmark in the shared frame names this channel alone
		return bookmarksOnly(&b.s.subs, b)
	}
	return true
}

// bufferMessage buffers a message until the subscribe reply is out. With too many, the client is disconnected and connects
// again.
func (b *Subscription) bufferMessage(m *hub.Message) {
	switch {
	case !b.state.buffers():
		return
	case m.Kind == hub.KindCheck: // the attach reads the position after the check, unless there is none
		if c := b.setup.catchup; c != nil && c.Ephemeral() && !b.at.Check(m) {
			c.lost = true
		}
		return
	case m.Kind != hub.KindPublication && !b.pushJoinLeave:
		return
	}
	if !b.setup.buffer.Keep(m) {
		b.s.Close(protocol.DisconnectInsufficientState)
	}
}

// deliverPositioned delivers the successor of the position, and ends the subscription at a gap.
func (b *Subscription) deliverPositioned(m *hub.Delivery) {
	p := m.Pub
	if lag := b.s.cfg.PositionMaxTimeLag; lag > 0 && b.s.env.Wall()+int64(b.s.cfg.Clocks.Correction())-p.Time*int64(time.Millisecond) > int64(lag+m.WindowDelay) {
		b.insufficientState("", "")
		return
	}
	switch step := b.at.Take(m, b.s.cfg.Rounds); {
	case step == position.Gap:
		b.insufficientState(flightrecorder.ByPublication, m.Epoch)
	case step == position.Past:
	case !b.terms.Filtered():
		b.send(m, b.at.Encode(m))
	case !b.terms.Passes(p.Tags):
		m.Filtered++
	default:
		form, on := b.at.EncodeFiltered(m, &b.membership, b.terms.Passed)
		b.sendOn(on, m, form)
	}
}

func (b *Subscription) send(m *hub.Delivery, form hub.Form) { b.sendOn(nil, m, form) }

// sendOn is send with a base for a patch, or nil.
func (b *Subscription) sendOn(base *hub.Base, m *hub.Delivery, form hub.Form) {
	var bookmark []byte
	if form&hub.Bookmarked != 0 && !bookmarksOnly(&b.s.subs, b) {
		form &^= hub.Bookmarked
		var open hub.Form
		bookmark, open = frameBookmark(&b.s.env.Pool().Arena, &b.s.subs, b.s.via)
		form |= open
	}
	frame, err := m.FrameOn(base, b.s.via.Framer, form)
	if err != nil {
		b.s.env.Refused(observe.LimitFormat, b.channel)
		return
	}
	b.s.cfg.Taps.Delivered(b.s.env, b.s, m.Message)
	b.s.push(frame)
	if bookmark != nil {
		b.s.push(bookmark)
	}
}

// insufficientState ends a subscription that lost its position. epoch is the epoch of the message that shows the gap.
func (b *Subscription) insufficientState(foundBy, epoch string) {
	b.s.cfg.Epochs.Compare(foundBy, b.channel, b.at.Epoch, epoch)
	b.s.endOrClose(b, protocol.DisconnectInsufficientState, protocol.UnsubscribeInsufficientState)
}
