package cluster

import (
	"strings"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

const (
	// silentAfter is how long a node counts without a sign of life.
	silentAfter = 7 * time.Second
	// missedFor is how long a node that fell silent without a farewell may still have
	// clients, so that a survey without it is not complete: one that is stopped sends
	// no pings, upon which clients go elsewhere after 25 s and 10 s more.
	missedFor = 45 * time.Second
	// forgetAfter is how long such a node is remembered, and told what it missed when it
	// is back.
	forgetAfter = 5 * time.Minute
	// deafAfter is how long this node may hear nothing, not even itself, before the silence
	// of others tells nothing of them: it was stopped, or cut off from the engine.
	deafAfter = pingInterval + time.Second
	// leftFor is how long it is remembered that a node left, so that a late sign of
	// life, as the order of messages is free, does not bring it back.
	leftFor = 30 * time.Second
	// maxNodes bounds how many nodes are known, and how many are remembered to have
	// left.
	maxNodes = 4096
	// maxUID and maxName bound the texts of a node, in bytes.
	maxUID  = 64
	maxName = 255
	// driftParts is how much slower than ours the clock of another node may run: one
	// part in so many.
	driftParts = 1000
)

// registry knows the other nodes. It has no clock: every method that needs the time
// is told it. One goroutine at a time.
type registry struct {
	start time.Time
	// heard is when the last message of any node came, this one included, and hearing
	// since when messages have come without a pause.
	heard, hearing time.Time
	nodes          map[string]*entry
	left           map[string]time.Time
}

type entry struct {
	node *control.Node
	seen time.Time
	// lead is by how much the node's clock is ahead of the time since registry.start, at
	// least: what it told was true when it was sent, which was before it arrived.
	lead time.Duration
	lost bool // it is not listed any more
}

func newRegistry() registry {
	return registry{start: time.Now(), nodes: make(map[string]*entry), left: make(map[string]time.Time)}
}

// hear notes that a message came.
func (r *registry) hear(now time.Time) {
	if now.Sub(r.heard) > deafAfter {
		r.hearing = now
	}
	r.heard = now
}

// silence is for how long a node has not been heard of while others were.
func (r *registry) silence(e *entry, now time.Time) time.Duration {
	switch {
	case now.Sub(r.heard) > deafAfter:
		return 0
	case r.hearing.After(e.seen):
		return now.Sub(r.hearing)
	}
	return now.Sub(e.seen)
}

// silent tells that a node has not been heard of for too long to be waited for.
func (r *registry) silent(e *entry, now time.Time) bool { return r.silence(e, now) > silentAfter }

// missed tells that a node may have clients.
func (r *registry) missed(e *entry, now time.Time) bool { return r.silence(e, now) <= missedFor }

// put notes a sign of life, and tells whether the node was not listed. n is the
// registry's from here on.
func (r *registry) put(n *control.Node, now time.Time) (unlisted bool) {
	if _, gone := r.left[n.UID]; gone {
		return false
	}
	lead := time.Duration(n.Clock) - now.Sub(r.start)
	e, known := r.nodes[n.UID]
	switch {
	case known:
		unlisted = e.lost
		lead = max(lead, e.lead-now.Sub(e.seen)/driftParts)
	case len(r.nodes) >= maxNodes:
		return false
	default:
		unlisted = true
	}
	n.Name, n.Version = cut(n.Name), cut(n.Version)
	r.nodes[n.UID] = &entry{node: n, seen: now, lead: lead}
	return unlisted
}

// until returns what the node's clock says in d from now, at most.
func (r *registry) until(e *entry, now time.Time, d time.Duration) int64 {
	return int64(now.Sub(r.start) + d + e.lead - (now.Sub(e.seen)+d)/driftParts)
}

func cut(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

// remove forgets a node that left, and tells whether it was listed.
func (r *registry) remove(uid string, now time.Time) (listed bool) {
	if e := r.nodes[uid]; e != nil {
		listed = !e.lost
	}
	delete(r.nodes, uid)
	if len(r.left) < maxNodes {
		r.left[uid] = now
	}
	return listed
}

// expire takes the nodes that are silent from the list, returns them, and forgets those
// that have been for long.
func (r *registry) expire(now time.Time) (lost []*control.Node) {
	for uid, e := range r.nodes {
		if now.Sub(e.seen) > silentAfter && !e.lost {
			e.lost = true
			lost = append(lost, e.node)
		}
		if now.Sub(e.seen) > forgetAfter {
			delete(r.nodes, uid)
		}
	}
	for uid, at := range r.left {
		if now.Sub(at) > leftFor {
			delete(r.left, uid)
		}
	}
	return lost
}

// describe names a node for people.
func (r *registry) describe(uid string) string {
	if e := r.nodes[uid]; e != nil && e.node.Name != "" {
		return uid + " (" + e.node.Name + ")"
	}
	return uid
}
