package cluster

import (
	"strings"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

const (
	// staleAfter is how long a node counts without a sign of life.
	staleAfter = 7 * time.Second
	// leftFor is how long it is remembered that a node left, so that a late sign of
	// life, as the order of messages is free, does not bring it back.
	leftFor = 30 * time.Second
	// maxNodes bounds how many nodes are known, and how many are remembered to have
	// left.
	maxNodes = 4096
	// maxUID and maxName bound the texts of a node, in bytes.
	maxUID  = 64
	maxName = 255
)

// registry knows the other nodes. It has no clock: every method that needs the time
// is told it. One goroutine at a time.
type registry struct {
	nodes map[string]entry
	left  map[string]time.Time
}

type entry struct {
	node *control.Node
	seen time.Time
}

func newRegistry() registry {
	return registry{nodes: make(map[string]entry), left: make(map[string]time.Time)}
}

// put notes a sign of life, and tells whether the node was unknown. n is the
// registry's from here on.
func (r *registry) put(n *control.Node, now time.Time) (unknown bool) {
	if _, gone := r.left[n.UID]; gone {
		return false
	}
	_, known := r.nodes[n.UID]
	if !known && len(r.nodes) >= maxNodes {
		return false
	}
	n.Name, n.Version = cut(n.Name), cut(n.Version)
	r.nodes[n.UID] = entry{n, now}
	return !known
}

func cut(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

// remove forgets a node that left, and tells whether it was known.
func (r *registry) remove(uid string, now time.Time) (known bool) {
	_, known = r.nodes[uid]
	delete(r.nodes, uid)
	if len(r.left) < maxNodes {
		r.left[uid] = now
	}
	return known
}

// expire forgets the nodes that are stale, and returns them.
func (r *registry) expire(now time.Time) (stale []*control.Node) {
	for uid, e := range r.nodes {
		if now.Sub(e.seen) > staleAfter {
			delete(r.nodes, uid)
			stale = append(stale, e.node)
		}
	}
	for uid, at := range r.left {
		if now.Sub(at) > leftFor {
			delete(r.left, uid)
		}
	}
	return stale
}
