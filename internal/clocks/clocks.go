// Package clocks has the clock of a node, and measures how far the clocks of a cluster's nodes differ. Each node sends in its signs of life its time,
// and how long the messages of other nodes took at best, by both clocks. The difference of the clocks makes one of two
// nodes' figures larger and the other smaller, so half of the difference of the figures is the difference of the clocks,
// as far as messages are equally fast both ways. The best figure of some minutes counts, as most of a message's time is
// waiting.
package clocks

import (
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The best measurement of this period and of the one before counts.
	period = time.Minute
	// forget is how long a node counts after its last sign of life, or its last report of this one.
	forget = 5 * time.Minute
	// MaxReports and minReports bound the reports in a sign of life. Nodes take turns in them, over rounds signs of life
	// or more: a report for each of n nodes would make n*n reports.
	MaxReports, minReports = 32, 4
	rounds                 = 20
	// If the system's clock moved more than jump against the monotonic one between two signs of life, it was set, and
	// old measurements are worthless.
	jump = 100 * time.Millisecond
	// grain is the resolution of publications' times; a smaller difference is not corrected.
	grain = time.Millisecond
)

// Report tells a node how long its messages took at best, by its own clock and the reporter's clock.
type Report struct {
	Node uint64 // ID of the node
	Took int64  // nanoseconds; negative if the reporter's clock is behind
}

// ID of a node in reports.
func ID(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid))
	return h.Sum64()
}

// Clocks knows the clocks of the other nodes. nil is the Clocks of a node without others. Any goroutine may use it.
type Clocks struct {
	self  uint64
	clock func() time.Time // nil: the system's
	ahead atomic.Int64

	mu    sync.Mutex
	read  time.Time // when a sign of life was sent last
	shown int64     // by the clock then
	nodes map[uint64]*peer
	turn  uint64 // the ID that was reported last
}

type peer struct {
	seen     time.Time
	since    time.Time // when the period began
	now, old int64     // the best of this period, and of the one before; nanoseconds
	back     int64     // its report about this node
	reported time.Time // when; zero: never
}

func (p *peer) best() int64 { return min(p.now, p.old) }

// New returns the clocks of the node with a UID. clock is the node's own; nil: the system's.
func New(uid string, clock func() time.Time) *Clocks {
	return &Clocks{self: ID(uid), clock: clock, nodes: make(map[uint64]*peer)}
}

// Wall is the time that this node's clock shows, in nanoseconds since the Unix epoch. It may jump.
func (c *Clocks) Wall() int64 {
	if c == nil {
		return time.Now().UnixNano()
	}
	return c.at(time.Now())
}

// at is what the clock shows now.
func (c *Clocks) at(now time.Time) int64 {
	if c.clock == nil {
		return now.UnixNano()
	}
	return c.clock().UnixNano()
}

// Ahead is how far the clock of this node is ahead of the median of all nodes; negative if it is behind.
func (c *Clocks) Ahead() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.ahead.Load())
}

// Correction is the duration to add to this node's time; 0 if that makes no difference.
func (c *Clocks) Correction() time.Duration {
	if ahead := c.Ahead(); ahead >= grain || ahead <= -grain {
		return -ahead
	}
	return 0
}

// Now is the time by the clocks of the cluster, in nanoseconds since the Unix epoch.
func (c *Clocks) Now() int64 { return c.Wall() + int64(c.Correction()) }

// Stamp returns the time for a publication that this node makes now, in Unix milliseconds; 0 if the engine may take this
// system's time.
func (c *Clocks) Stamp() int64 {
	correction := c.Correction()
	if correction == 0 && (c == nil || c.clock == nil) {
		return 0
	}
	return (c.Wall() + int64(correction)) / int64(time.Millisecond)
}

// Send returns the contents of a sign of life that is sent now: the time of the clock, and reports for other nodes.
func (c *Clocks) Send(now time.Time) (clock int64, reports []Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shows := c.at(now)
	if moved := time.Duration(shows-c.shown) - now.Sub(c.read); !c.read.IsZero() && (moved > jump || moved < -jump) {
		clear(c.nodes)
	}
	c.read, c.shown = now, shows
	ids := make([]uint64, 0, len(c.nodes))
	for id, p := range c.nodes {
		if now.Sub(p.seen) > forget {
			delete(c.nodes, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	from, _ := slices.BinarySearch(ids, c.turn+1)
	for i := range min(len(ids), max(minReports, min(MaxReports, (len(ids)+rounds-1)/rounds))) {
		id := ids[(from+i)%len(ids)]
		reports = append(reports, Report{id, c.nodes[id].best()})
		c.turn = id
	}
	c.settle(now)
	return shows, reports
}

// Receive takes the sign of life of a node, which arrives now.
func (c *Clocks) Receive(uid string, clock int64, reports []Report, now time.Time) {
	if clock == 0 {
		return // it is of a version that does not say
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	took, id := c.at(now)-clock, ID(uid)
	p := c.nodes[id]
	switch {
	case p == nil && len(c.nodes) >= maxNodes:
		return
	case p == nil:
		p = &peer{since: now, now: took, old: took}
		c.nodes[id] = p
	case now.Sub(p.since) >= period:
		p.since, p.old, p.now = now, p.now, took
	}
	p.seen, p.now = now, min(p.now, took)
	for _, r := range reports {
		if r.Node == c.self {
			p.back, p.reported = r.Took, now
		}
	}
	c.settle(now)
}

const maxNodes = 4096

// settle computes ahead: the median of the differences to the clocks of all nodes, this node included.
func (c *Clocks) settle(now time.Time) {
	list := []int64{0}
	for _, p := range c.nodes {
		if now.Sub(p.seen) <= forget && !p.reported.IsZero() && now.Sub(p.reported) <= forget {
			list = append(list, p.best()/2-p.back/2)
		}
	}
	slices.Sort(list)
	n := len(list)
	c.ahead.Store(list[(n-1)/2]/2 + list[n/2]/2)
}
