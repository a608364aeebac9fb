package gyro

import (
	"errors"
	"reflect"
	"slices"

	"github.com/gyrohq/gyro/broker"
)

// Health of a part of the node: an engine, a shard of it, or the node's own loops.
type Health = broker.Health

var (
	errNotRunning   = errors.New("gyro: node does not run")
	errShuttingDown = errors.New("gyro: node is shutting down")
)

// Health tells for each part of the node whether it delivers, always in the same
// order: first the part "node", whose Delay is how long the slowest of its loops
// takes to come round, then those that the broker, the presence manager and the
// controller report. A node is fit to take clients if no Err is set. "node" is not
// before Run, from Drain or Shutdown on, and while a loop has not come round for more
// than 3 s.
//
// It does not wait for anything, and what it reports is at most a second old, plus
// what an engine takes to find out.
func (n *Node) Health() []Health {
	parts := []Health{n.loopHealth()}
	for _, health := range n.health {
		parts = append(parts, health()...)
	}
	return parts
}

// healths returns those of the engines that report health, each engine once.
func healths(engines ...broker.Engine) (list []func() []Health) {
	var seen []broker.Engine // those that can be compared
	for _, e := range engines {
		if e == nil {
			continue
		}
		if reflect.ValueOf(e).Comparable() {
			if slices.Contains(seen, e) {
				continue
			}
			seen = append(seen, e)
		}
		if health := e.Describe().Health; health != nil {
			list = append(list, health)
		}
	}
	return list
}

func (n *Node) loopHealth() Health {
	h := Health{Part: "node"}
	h.Delay, h.Err = n.pulse.Health()
	switch open, refusing := n.clients.State(); {
	case refusing:
		h.Err = errShuttingDown
	case !open:
		h.Err = errNotRunning
	}
	return h
}
