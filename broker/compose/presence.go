package compose

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// NewPresence returns a presence manager that hands each channel's operations to the manager that selector names.
// managers must not be empty. The result is local if all managers are, and reports the health of all. A single manager
// is returned as it is.
func NewPresence(selector Selector, managers ...broker.PresenceManager) broker.PresenceManager {
	if len(managers) == 1 {
		return managers[0]
	}
	return &presence{selector: selector, managers: managers, own: common(describe(managers))}
}

type presence struct {
	selector Selector
	managers []broker.PresenceManager
	own      broker.Traits
}

func (p *presence) Describe() broker.Traits { return p.own }

func (p *presence) of(ch string) broker.PresenceManager {
	return p.managers[p.selector.in(len(p.managers), ch)]
}

func (p *presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return p.of(ch).Add(ctx, ch, info)
}

func (p *presence) Remove(ctx context.Context, ch, client, user string) error {
	return p.of(ch).Remove(ctx, ch, client, user)
}

func (p *presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	return p.of(ch).Presence(ctx, ch)
}

func (p *presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	return p.of(ch).Stats(ctx, ch)
}
