package cluster

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
)

const (
	silentAfter = 7 * time.Second
	// missedFor is how long a node that fell silent without a farewell may still have clients, so that a survey without
	// it is not complete: a stopped node sends no pings, and its clients leave after 25 s and 10 s more.
	missedFor = 45 * time.Second
	// forgetAfter is how long a silent node is remembered, and gets the commands that it missed if it comes back.
	forgetAfter = 5 * time.Minute
	// A node is absent once the engine has said at two moments, absentAfter apart at least, that no process receives
	// messages for it. A node whose connection breaks has another one before, as a rule.
	absentAfter = 250 * time.Millisecond
	// A node that receives nothing for deafAfter, not even its own messages, was stopped or cut off from the engine.
	// Then others need not have been silent.
	deafAfter = pingInterval + time.Second
	// leftFor is how long a farewell is remembered, because a sign of life may arrive after it.
	leftFor  = 30 * time.Second
	maxNodes = 4096
	maxUID   = 64
	maxName  = 255
	// The clock of another node may be slower than this one's by one part in driftParts.
	driftParts = 1000
)

// registry knows the other nodes. It has no clock: methods get the time. One goroutine may use it at a time.
type registry struct {
	start time.Time
	// heard is when the last message of any node came, this one included. Since hearing,
	// messages have come without a pause.
	heard, hearing time.Time
	nodes          map[string]*entry
	left           map[string]time.Time
}

type entry struct {
	node *control.Node
	seen time.Time
	// lead is at most how far the node's clock is ahead of the time since registry.start.
	lead time.Duration
	lost bool // not listed any more
	// missed is when the engine first said that no process receives messages for the node, absent that it said so
	// absentAfter later. The node's next message ends both.
	missed time.Time
	absent bool
	probed time.Time // when a survey asked the engine last
}

func newRegistry() registry {
	return registry{start: time.Now(), nodes: make(map[string]*entry), left: make(map[string]time.Time)}
}

func (r *registry) hear(now time.Time) {
	if now.Sub(r.heard) > deafAfter {
		r.hearing = now
	}
	r.heard = now
}

// silence returns for how long others have sent messages, and a node no sign of life.
func (r *registry) silence(e *entry, now time.Time) time.Duration {
	switch {
	case now.Sub(r.heard) > deafAfter:
		return 0
	case r.hearing.After(e.seen):
		return now.Sub(r.hearing)
	}
	return now.Sub(e.seen)
}

func (r *registry) silent(e *entry, now time.Time) bool {
	return e.absent || r.silence(e, now) > silentAfter
}

// noReceiver notes that a node has ended, or has no connection to the engine.
func (r *registry) noReceiver(uid string, now time.Time) {
	switch e := r.nodes[uid]; {
	case e == nil:
	case e.missed.IsZero():
		e.missed = now
	default:
		e.absent = now.Sub(e.missed) >= absentAfter
	}
}

func (r *registry) hasReceiver(uid string) {
	if e := r.nodes[uid]; e != nil {
		e.missed, e.absent = time.Time{}, false
	}
}

func (r *registry) populated(e *entry, now time.Time) bool { return r.silence(e, now) <= missedFor }

func (r *registry) knows(uid string) bool { return r.nodes[uid] != nil }

// put notes a sign of life, and tells whether the node was not listed. It takes n over.
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
	next := &entry{node: n, seen: now, lead: lead}
	if known {
		next.probed = e.probed
	}
	r.nodes[n.UID] = next
	return unlisted
}

// until returns a lower bound of the time that the node's clock shows in d from now.
func (r *registry) until(e *entry, now time.Time, d time.Duration) int64 {
	return int64(now.Sub(r.start) + d + e.lead - (now.Sub(e.seen)+d)/driftParts)
}

func cut(s string) string {
	if len(s) <= maxName {
		return s
	}
	return strings.ToValidUTF8(s[:maxName], "")
}

func (r *registry) remove(uid string, now time.Time) (listed *control.Node) {
	if e := r.nodes[uid]; e != nil && !e.lost {
		listed = e.node
	}
	delete(r.nodes, uid)
	if len(r.left) < maxNodes {
		r.left[uid] = now
	}
	return listed
}

// expire takes silent nodes off the list, returns them, and forgets nodes that have been silent for forgetAfter. While
// this node itself receives nothing, no node counts as silent.
func (r *registry) expire(now time.Time) (lost []*control.Node) {
	for uid, e := range r.inOrder() {
		silence := r.silence(e, now)
		if silence > silentAfter && !e.lost {
			e.lost = true
			lost = append(lost, e.node)
		}
		if silence > forgetAfter {
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

// inOrder iterates over the nodes in the order of their UIDs, so that what a node sends does not depend on chance.
func (r *registry) inOrder() iter.Seq2[string, *entry] {
	return func(yield func(string, *entry) bool) {
		for _, uid := range slices.Sorted(maps.Keys(r.nodes)) {
			if !yield(uid, r.nodes[uid]) {
				return
			}
		}
	}
}

func (r *registry) describe(uid string) string {
	if e := r.nodes[uid]; e != nil && e.node.Name != "" {
		return uid + " (" + e.node.Name + ")"
	}
	return uid
}
