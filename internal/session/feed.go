package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// Fed delivers a publication of the feed; false if the subscription has ended.
func (b *Subscription) Fed(p *channel.Publication) bool {
	if b.state != subLive {
		return false
	}
	d := &hub.Delivery{Message: &hub.Message{Channel: b.channel, Pub: p}}
	b.Deliver(d)
	b.s.env.Counts().Delivered(d)
	return true
}

// FeedEnded ends the subscription and reports that it did. If the client has gone, the subscription stays for its
// earlier commands.
func (b *Subscription) FeedEnded(u protocol.Unsubscribe) (ch string, ended bool) {
	if b.state != subLive || b.s.leaving() {
		return b.channel, false
	}
	b.s.env.Finish(b)
	if b.state != subLive {
		return b.channel, false
	}
	b.s.endWith(b, u)
	return b.channel, true
}
