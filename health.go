package gyro

import (
	"cmp"

	"github.com/gyrohq/gyro/broker"
)

// Health of a Part of the node (an engine, a shard of it, or the node's own loops): the Delay of its messages, Err if
// it does not work, and how many Reconnects it needed. See "go doc github.com/gyrohq/gyro/broker.Health".
type Health = broker.Health

// Health reports for each part of the node whether it delivers, always in the same order: first the part "node",
// whose Delay is how long a message takes through its slowest loop, then the parts of the broker, the presence
// manager and the controller. A node can take clients if no part has an Err. The part "node" has one before Run, from
// Drain or Shutdown on, and while a message takes more than 3 s.
//
// Health does not wait. Its report is at most a second old, plus the time that an engine needs for its check.
func (n *Node) Health() []Health {
	own := Health{Part: "node"}
	own.Delay, own.Err = n.pulse.Health()
	own.Err = cmp.Or(n.clients.Closed(), own.Err)
	parts := []Health{own}
	for _, health := range n.health {
		parts = append(parts, health()...)
	}
	return parts
}
