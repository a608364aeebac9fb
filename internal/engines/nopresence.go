package engines

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// NoPresence refuses everything, on a node without a presence manager.
type NoPresence struct{}

var errAbsent = refusal.Because(protocol.ErrorNotAvailable, "Config.Presence", "the node has no presence manager: its broker's engine offers none; memory.NewPresence is one for a single node")

// Describe implements broker.Engine.
func (NoPresence) Describe() broker.Traits { return broker.Traits{Name: "absent", Local: true} }

// Add implements broker.PresenceManager.
func (NoPresence) Add(context.Context, string, *channel.ClientInfo) error { return errAbsent }

// Remove implements broker.PresenceManager. There is no client to remove.
func (NoPresence) Remove(context.Context, string, string, string) error { return nil }

// Presence implements broker.PresenceManager.
func (NoPresence) Presence(context.Context, string) (map[string]*channel.ClientInfo, error) {
	return nil, errAbsent
}

// Stats implements broker.PresenceManager.
func (NoPresence) Stats(context.Context, string) (broker.PresenceStats, error) {
	return broker.PresenceStats{}, errAbsent
}
