// Package metrics exports counts of a node and its clients to Prometheus, with names, labels and buckets
//
//	m := metrics.New(metrics.Config{})
//	node, err := gyro.New(gyro.Config{Observer: m.Observer()})
//	m.Watch(node)
//	prometheus.MustRegister(m) // or serve m.Handler()
//
// The clients of a node cost only the additions: each loop hands over its counts once per turn, and nothing is looked
// up by the values of labels. Clients choose no values of labels.
package metrics

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gyrohq/gyro/observe"
)

// Config of Metrics. The zero value is useful.
type Config struct {
	// Namespace begins all names: letters, digits and underscores. Default: gyro.
	Namespace string
	// NativeHistograms makes all histograms native ones (growth factor 1.1, at most 200 buckets), without classic
	// buckets and summaries.
	NativeHistograms bool
	// RecoveredPublications adds client_recovered_publications, a histogram of how many publications each recovery
	// returned.
	RecoveredPublications bool
	// ChannelNamespace fills the label channel_namespace, by the rules of observe.Observer.Namespace. Default: the label
	// is empty.
	ChannelNamespace func(channel string) string
	// ClientNames are values of the label client_name, 63 at most, besides unnamed and unregistered.
	ClientNames []string
	// AcceptProtocol fills the label accept_protocol with the HTTP version of the request that opened the connection:
	// h1, h2 or h3, and an empty text for others. Default: the label is empty.
	AcceptProtocol bool
	// ClientLabels are keys of labels that the application gives clients (gyro.ConnectReply.Labels), of letters, digits
	// and underscores, observe.MaxClientLabels at most. Each is a label app_KEY of client_connections_* and
	// client_subscriptions_*: the value, empty if the client has none, or other.
	ClientLabels []string
	// ClientLabelSets bounds the combinations of these values; others are counted together, with the value other in all
	// labels, and Logger gets a warning. Default: 100; observe.MaxLabelSets at most.
	ClientLabelSets int
	// Version is the label of node_build. Default: none, and there is no node_build.
	Version string
	// Logger gets an error for metrics that Handler cannot collect, and the warning. Default: slog.Default().
	Logger *slog.Logger
}

// Metrics is a prometheus.Collector of the metrics of one node. Several in a process need different namespaces if they
// share a registry. Any goroutine may use it.
type Metrics struct {
	cfg     Config
	began   time.Time
	labels  *observe.ClientLabels // nil: none
	clients *clients
	node    *node
	brokers *brokers
	surveys *Durations

	mu       sync.Mutex
	descs    []*prometheus.Desc
	sources  []source
	surveyed map[string]*Duration // by the operation
}

type source interface{ export(out values) }

// New returns metrics without counts. It panics if the namespace cannot be the start of a name.
func New(c Config) *Metrics {
	if c.Namespace == "" {
		c.Namespace = "gyro"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	m := &Metrics{cfg: c, began: time.Now(), surveyed: make(map[string]*Duration)}
	if len(c.ClientLabels) > 0 {
		m.labels = observe.NewClientLabels(c.ClientLabels, cmp.Or(c.ClientLabelSets, 100), m.tooManyLabels)
	}
	m.clients, m.node, m.brokers = newClients(m), newNode(m), newBrokers(m)
	m.surveys = m.Durations("node", "survey_duration_seconds", "Time that a survey of all nodes took", surveyBuckets, "op")
	m.sources = append(m.sources, m.clients)
	return m
}

// Observer returns the observer for gyro.Config.Observer, of one node. A program that observes something itself calls
// the functions of both.
func (m *Metrics) Observer() observe.Observer {
	return observe.Observer{
		Turn: m.clients.turn, Totals: &m.clients.totals, Namespace: m.cfg.ChannelNamespace, ClientNames: m.cfg.ClientNames,
		ClientLabels: m.labels,
	}
}

// A slow writer of the log must not block the loop that calls tooManyLabels.
func (m *Metrics) tooManyLabels() {
	go m.cfg.Logger.Warn("labels of clients have too many values for metrics, further ones are counted as other",
		"labels", m.cfg.ClientLabels, "limit", cmp.Or(m.cfg.ClientLabelSets, 100))
}

// Handler serves the metrics, with those of the Go runtime, of the process, and of others. It does not offer
// OpenMetrics, which would append _total to counters that dashboards know without it. At most 16 scrapes are answered at
// a time, more are refused with 503.
func (m *Metrics) Handler(others ...prometheus.Collector) http.Handler {
	return promhttp.HandlerFor(m.Gatherer(others...), promhttp.HandlerOpts{
		ErrorLog:            errorLog{m.cfg.Logger},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 16,
		CoalesceGather:      true,
	})
}

// Gatherer has the metrics that Handler serves.
func (m *Metrics) Gatherer(others ...prometheus.Collector) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(others...)
	return r
}

type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	l.log.Error("metrics cannot be collected", "reason", fmt.Sprint(v...))
}

// Describe implements prometheus.Collector, without the metrics that engines export under names of their own.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	sources := slices.Clone(m.sources)
	m.mu.Unlock()
	for _, s := range sources {
		s.export(values(ch))
	}
}

func (m *Metrics) add(s source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = append(m.sources, s)
}

func (m *Metrics) since() time.Duration { return time.Since(m.began) }

func (m *Metrics) desc(subsystem, name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prometheus.BuildFQName(m.cfg.Namespace, subsystem, name), help, labels, nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.descs = append(m.descs, d)
	return d
}

func (m *Metrics) histogram(subsystem, name, help string, buckets []float64, labels ...string) *shape {
	s := &shape{histogram: m.desc(subsystem, name, help, labels...), began: m.began}
	if !m.cfg.NativeHistograms {
		s.buckets = slices.Clone(buckets)
	}
	return s
}

// times describes a family of summaries, and its twin of histograms. help has no period.
func (m *Metrics) times(subsystem, name, help string, buckets []float64, labels ...string) *shape {
	s := m.histogram(subsystem, name+"_histogram", help+", as a histogram.", buckets, labels...)
	if !m.cfg.NativeHistograms {
		s.summary = m.desc(subsystem, name, help+".", labels...)
	}
	return s
}

type values chan<- prometheus.Metric

func (v values) gauge(d *prometheus.Desc, value float64, labels ...string) {
	v <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (v values) count(d *prometheus.Desc, value uint64, labels ...string) {
	v <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// Most combinations of labels never occur, so counted leaves out 0.
func (v values) counted(d *prometheus.Desc, value uint64, labels ...string) {
	if value > 0 {
		v.count(d, value, labels...)
	}
}
