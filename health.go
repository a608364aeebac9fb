package gyro

import (
	"cmp"

	"github.com/gyrohq/gyro/broker"
)

// Health of a Part of the node (an engine, a shard of it, or the node's own loops): its Delay, Err if it does not work,
// and its Reconnects. See "go doc github.com/gyrohq/gyro/broker.Health".
type Health = broker.Health

// Health reports for each part whether it delivers, in a fixed order: first "node", whose Delay is how long a message
// takes through its slowest loop, then the parts of the broker, the presence manager and the controller. A node can
// take clients if no part has an Err. "node" has one before Run, from Drain or Shutdown on, and while a message takes
// more than 3 s.
//
// Health does not wait. Its report is at most a second old, plus the time of an engine's check.
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
