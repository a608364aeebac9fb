package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
)

// standing of the client in the channel of a subscription, which may be nil.
func (b *Subscription) standing() effect.Standing {
	if !b.established() {
		return effect.Standing{}
	}
	return effect.Standing{Subscribed: true, Rights: b.terms.rights}
}

// withdraw ends the subscriptions that need rights which new capabilities do not give. Nil changes nothing.
func (s *Session) withdraw(c *channel.Capabilities) {
	if c == nil {
		return
	}
	ends := map[string]protocol.Unsubscribe{}
	for b := range s.subs.All() {
		switch has := c.On(b.channel); {
		case has.Has(b.terms.needs):
		case has.Has(b.terms.needs & channel.RightSubscribe):
			ends[b.channel] = protocol.UnsubscribeStateInvalidated // it may have the subscription without the other rights
		default:
			ends[b.channel] = protocol.UnsubscribeServer
		}
	}
	for ch, u := range ends {
		s.ServerUnsubscribe(ch, u)
	}
}
