package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// Fed delivers a publication of the subscription's feed. It reports false if the subscription has
// ended.
func (b *Subscription) Fed(p *channel.Publication) bool {
	if b.state != subLive {
		return false
	}
	d := &hub.Delivery{Message: &hub.Message{Channel: b.channel, Pub: p}}
	b.Deliver(d)
	b.s.env.Counts().Delivered(d)
	return true
}

// FeedEnded ends the subscription because its feed has no more publications. If the client has gone,
// the subscription stays for the commands that the client sent before. FeedEnded returns the channel, and whether it has ended the
// subscription.
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
