package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api"
)

// Node has the methods of *gyro.Node whose results are exported. Any goroutine may call them.
type Node interface {
	Info(ctx context.Context) ([]gyro.NodeInfo, error)
	Health() []gyro.Health
	Panics() uint64
}

const (
	// fresh is how old the numbers of a node may be, since each loop has to be asked for them.
	fresh = time.Second
	// patience is how long a scrape waits for a loop that hangs. After that it exports the
	// numbers of the scrape before.
	patience = time.Second
)

// Node exports the size of a node, whether it delivers, and how many connections it has refused
// because of client.connection_limit.
func (r *Registry) Node(n Node, version string, refused func() uint64) {
	c := &nodeCollector{node: n, refused: refused, version: strings.ToValidUTF8(version, "?")}
	for i, m := range [...]struct{ name, help string }{
		{"num_clients", "Connections of clients to this node."},
		{"num_users", "Distinct users that are connected to this node; all anonymous ones are one."},
		{"num_subscriptions", "Subscriptions of clients on this node."},
		{"num_channels", "Channels with subscribers on this node."},
		{"num_nodes", "Nodes of the cluster that this node knows, itself included."},
	} {
		c.sizes[i] = r.desc("node", m.name, m.help)
	}
	c.build = r.desc("node", "build", "Version of the server; always 1.", "version")
	c.delay = r.desc("node", "canary_delay_seconds", "Time that the newest canary took to come round the slowest loop of the node.")
	c.ready = r.desc("node", "ready", "1 if everything delivers, so that /health/ready is 200; else 0.")
	c.limit = r.desc("node", "client_connection_limit", "Connections refused because of client.connection_limit.")
	c.panics = r.desc("node", "panics_total", "Panics that were contained, each logged as an error.")
	r.registry.MustRegister(c)
}

type nodeCollector struct {
	node    Node
	refused func() uint64
	version string

	sizes                              [5]*prometheus.Desc
	build, delay, ready, limit, panics *prometheus.Desc

	mu     sync.Mutex
	taken  time.Time // zero: never
	values [5]int    // of sizes
}

// Describe implements prometheus.Collector.
func (c *nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.sizes {
		ch <- d
	}
	for _, d := range []*prometheus.Desc{c.build, c.delay, c.ready, c.limit, c.panics} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *nodeCollector) Collect(ch chan<- prometheus.Metric) {
	out := values(ch)
	if sizes, ok := c.sample(); ok {
		for i, d := range c.sizes {
			out.gauge(d, float64(sizes[i]))
		}
	}
	out.gauge(c.build, 1, c.version)
	out.count(c.limit, c.refused())
	out.count(c.panics, c.node.Panics())
	ready := true
	for i, h := range c.node.Health() {
		ready = ready && h.Err == nil
		if i == 0 && h.Delay > 0 { // the node itself, after its first canary
			out.gauge(c.delay, h.Delay.Seconds())
		}
	}
	out.gauge(c.ready, oneIf(ready))
}

// sample returns the sizes of the node. It asks the node if the last answer is not fresh; it is
// not ok if the node has never answered.
func (c *nodeCollector) sample() (sizes [5]int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken.IsZero() || time.Since(c.taken) >= fresh {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if infos, err := c.node.Info(ctx); err == nil && len(infos) > 0 {
			self := &infos[0]
			c.values = [5]int{self.NumClients, self.NumUsers, self.NumSubs, self.NumChannels, len(infos)}
			c.taken = time.Now()
		}
	}
	return c.values, !c.taken.IsZero()
}

// Surveys returns n, and exports how long its surveys take.
func (r *Registry) Surveys(n api.Node) api.Node {
	d := r.durations("node", "survey_duration_seconds", "Time that a survey of all nodes took", surveyBuckets, "op")
	return &surveyed{n, d.with("channels")}
}

type surveyed struct {
	api.Node
	channels *duration
}

// Channels implements api.Node.
func (s *surveyed) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	begin := time.Now()
	channels, err := s.Node.Channels(ctx, pattern)
	s.channels.observe(time.Since(begin))
	return channels, err
}
