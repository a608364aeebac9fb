package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/observe"
)

// Node has the methods of *gyro.Node whose results are exported.
type Node interface {
	Cluster() gyro.Cluster
	Inspect() gyro.Inspector
	Health() []gyro.Health
}

const (
	// fresh is how old the numbers of a node may be, which it must ask each loop for.
	fresh = time.Second
	// patience is how long a scrape waits for a loop that hangs. Then it exports the numbers of the scrape before.
	patience = time.Second
)

// Watch exports the size of a node, and whether it delivers. It is called once.
func (m *Metrics) Watch(n Node) {
	m.node.Node = n
	m.add(m.node)
}

// ConnectionLimit exports how many connections were refused because of a limit on their number, which the program
// counts. It is called once.
func (m *Metrics) ConnectionLimit(refused func() uint64) {
	m.add(connectionLimit{m.node.limit, refused})
}

type connectionLimit struct {
	desc    *prometheus.Desc
	refused func() uint64
}

func (l connectionLimit) export(out values) { out.count(l.desc, l.refused()) }

// Survey adds the time that a survey took, under its name: a call of gyro.Cluster.Channels for example.
func (m *Metrics) Survey(op string, took time.Duration) {
	m.mu.Lock()
	d := m.surveyed[op]
	if d == nil {
		d = m.surveys.With(op)
		m.surveyed[op] = d
	}
	m.mu.Unlock()
	d.Observe(took)
}

type node struct {
	Node
	version string

	sizes                              [5]*prometheus.Desc
	loads                              [5]*prometheus.Desc
	build, delay, ready, limit, panics *prometheus.Desc

	mu     sync.Mutex
	taken  time.Time // zero: never
	values [5]int    // of sizes
	load   observe.Load
}

func newNode(m *Metrics) *node {
	n := &node{version: strings.ToValidUTF8(m.cfg.Version, "?")}
	for i, s := range [...]struct{ name, help string }{
		{"num_clients", "Connections of clients to this node."},
		{"num_users", "Distinct users that are connected to this node; all anonymous ones are one."},
		{"num_subscriptions", "Subscriptions of clients on this node."},
		{"num_channels", "Channels with subscribers on this node."},
		{"num_nodes", "Nodes of the cluster that this node knows, itself included."},
	} {
		n.sizes[i] = m.desc("node", s.name, s.help)
	}
	for i, s := range [...]struct{ subsystem, name, help string }{
		{"client", "queued_clients", "Clients that have not taken all that was sent to them."},
		{"client", "queued_bytes", "Bytes that wait for these clients."},
		{"client", "queue_largest_bytes", "Bytes that wait for one of these clients, for which most wait."},
		{"client", "queue_oldest_seconds", "Time for which the oldest of these bytes has waited."},
		{"node", "clock_skew_seconds", "How far the clock of this node is ahead of the middle one of the cluster; negative if it is behind."},
	} {
		n.loads[i] = m.desc(s.subsystem, s.name, s.help)
	}
	n.build = m.desc("node", "build", "Version of the program; always 1.", "version")
	n.delay = m.desc("node", "canary_delay_seconds", "Time that the newest canary took to come round the slowest loop of the node.")
	n.ready = m.desc("node", "ready", "1 if everything delivers, so that clients may be sent here; else 0.")
	n.limit = m.desc("node", "client_connection_limit", "Connections refused because of a limit on their number.")
	n.panics = m.desc("node", "panics_total", "Panics that were contained, each logged as an error.")
	return n
}

func (n *node) export(out values) {
	if sizes, l, ok := n.sample(); ok {
		for i, d := range n.sizes {
			out.gauge(d, float64(sizes[i]))
		}
		for i, v := range [...]float64{
			float64(l.QueuedClients), float64(l.QueuedBytes), float64(l.LargestQueue), l.OldestQueued.Seconds(), l.ClockSkew.Seconds(),
		} {
			out.gauge(n.loads[i], v)
		}
	}
	if n.version != "" {
		out.gauge(n.build, 1, n.version)
	}
	out.count(n.panics, n.Inspect().Panics())
	ready := true
	for i, h := range n.Health() {
		ready = ready && h.Err == nil
		if i == 0 && h.Delay > 0 { // the node itself, after its first canary
			out.gauge(n.delay, h.Delay.Seconds())
		}
	}
	out.gauge(n.ready, float64(oneIf(ready)))
}

// sample asks the node if the last answer is not fresh; it is not ok if the node has never answered.
func (n *node) sample() (sizes [5]int, load observe.Load, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken.IsZero() || time.Since(n.taken) >= fresh {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		infos, err := n.Cluster().Nodes(ctx)
		if err == nil {
			load, err = n.Inspect().Load(ctx)
		}
		if err == nil && len(infos) > 0 {
			self := &infos[0]
			n.values = [5]int{self.NumClients, self.NumUsers, self.NumSubs, self.NumChannels, len(infos)}
			n.load, n.taken = load, time.Now()
		}
	}
	return n.values, n.load, !n.taken.IsZero()
}
