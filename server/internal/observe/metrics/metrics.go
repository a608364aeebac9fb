// Package metrics exports the work of the server to Prometheus, beside the metrics of the node from package
// github.com/gyrohq/gyro/metrics. Names, labels and buckets are part of the server's interface: docs/metrics.md lists
// them. Values of labels never come from outside. Nothing here is on the way of a publication to its subscribers: a
// scrape reads what other packages count.
package metrics

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/server/internal/api"
)

// Config of a Registry.
type Config = metrics.Config

// Registry has the metrics of one server. A process may have several.
type Registry struct {
	*metrics.Metrics
	namespace string
	native    bool // histograms are native ones
	others    []prometheus.Collector
	commands  *commands // nil before API

	figures  sync.Mutex // guards the fields below
	gatherer prometheus.Gatherer
	latest   *Figures
	latestAt time.Time
}

// New returns a registry with the metrics of a node. The methods that add others are called before Handler, and at most
// once, API once for each protocol.
func New(c Config) *Registry {
	r := &Registry{Metrics: metrics.New(c), namespace: c.Namespace, native: c.NativeHistograms}
	r.gauge("node", "memory_limit_bytes", "Memory that the process may use: that of its control group, or of the machine.", func() float64 {
		return memoryLimit()
	})
	return r
}

// Handler serves all metrics.
func (r *Registry) Handler() http.Handler { return r.Metrics.Handler(r.others...) }

// Gatherer has the metrics that Handler serves.
func (r *Registry) Gatherer() prometheus.Gatherer { return r.Metrics.Gatherer(r.others...) }

// Surveys returns n, and exports how long its surveys take.
func (r *Registry) Surveys(n api.Node) api.Node { return &surveyed{n, r.Metrics} }

type surveyed struct {
	api.Node
	metrics *metrics.Metrics
}

// Channels implements api.Node.
func (s *surveyed) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	begin := time.Now()
	channels, err := s.Node.Channels(ctx, pattern)
	s.metrics.Survey("channels", time.Since(begin))
	return channels, err
}

func (r *Registry) gauge(subsystem, name, help string, value func() float64) {
	r.others = append(r.others, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: r.namespace, Subsystem: subsystem, Name: name, Help: help,
	}, value))
}

func (r *Registry) counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: r.namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
	r.others = append(r.others, c)
	return c
}
