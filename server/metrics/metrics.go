// Package metrics exports to Prometheus how the server is and what it does
// (observability.md 2 and 3). It is the only package that knows of Prometheus. Names,
// labels and buckets are part of the server's interface: docs/metrics.md has the list.
//
// No label has values that somebody outside can make up, and nothing here is on the way
// of a publication to its subscribers: what others count is read when it is asked for.
package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config of a Registry.
type Config struct {
	// Namespace is what the names of all metrics begin with, those of the Go runtime and
	// of the process excepted: letters, digits and underscores.
	Namespace string
	// NativeHistograms makes all histograms native ones, and leaves the summaries out.
	NativeHistograms bool
	// Logger hears of metrics that cannot be collected; nil: slog.Default().
	Logger *slog.Logger
}

// Registry has the metrics of one server; several in a process do not know each other.
// Each of its methods that begins to export something is called at most once, before
// the first scrape.
type Registry struct {
	cfg      Config
	registry *prometheus.Registry
}

// New returns a registry with the metrics of the Go runtime and of the process.
func New(c Config) *Registry {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	r := &Registry{cfg: c, registry: prometheus.NewRegistry()}
	r.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves the metrics. OpenMetrics is not offered, as it would append _total to
// the names of counters that dashboards know without.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog{r.cfg.Logger},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
	})
}

// maxScrapes that are answered at a time; more are refused.
const maxScrapes = 16

// errorLog is the logger of promhttp.
type errorLog struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l errorLog) Println(v ...any) {
	l.log.Error("metrics cannot be collected", "reason", fmt.Sprint(v...))
}

// Buckets of histograms, in seconds.
var (
	defaultBuckets = prometheus.DefBuckets // .005 to 10
	surveyBuckets  = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
)

// Of native histograms.
const (
	nativeFactor  = 1.1
	nativeBuckets = 200
	nativeReset   = time.Hour
)

// objectives are the quantiles of summaries, over ten minutes, and by how much each may
// be off.
var objectives = map[float64]float64{0.5: 0.05, 0.99: 0.001, 0.999: 0.0001}

// durations measure how long something takes, by labels: with a summary and, as
// name_histogram, with a histogram.
type durations struct {
	summary   *prometheus.SummaryVec // nil with native histograms
	histogram *prometheus.HistogramVec
}

// durations registers a pair. Its help is a sentence without the period.
func (r *Registry) durations(subsystem, name, help string, buckets []float64, labels ...string) *durations {
	d := &durations{}
	h := prometheus.HistogramOpts{
		Namespace: r.cfg.Namespace, Subsystem: subsystem, Name: name + "_histogram", Help: help + ", as a histogram.",
		Buckets: buckets,
	}
	if r.cfg.NativeHistograms {
		h.Buckets = nil
		h.NativeHistogramBucketFactor, h.NativeHistogramMaxBucketNumber = nativeFactor, nativeBuckets
		h.NativeHistogramMinResetDuration = nativeReset
	} else {
		d.summary = prometheus.NewSummaryVec(prometheus.SummaryOpts{
			Namespace: r.cfg.Namespace, Subsystem: subsystem, Name: name, Help: help + ".", Objectives: objectives,
		}, labels)
		r.registry.MustRegister(d.summary)
	}
	d.histogram = prometheus.NewHistogramVec(h, labels)
	r.registry.MustRegister(d.histogram)
	return d
}

// duration is one of durations, for given labels.
type duration struct {
	summary   prometheus.Observer // nil: none
	histogram prometheus.Observer
}

// with is called once for each combination of labels.
func (d *durations) with(labels ...string) *duration {
	one := &duration{histogram: d.histogram.WithLabelValues(labels...)}
	if d.summary != nil {
		one.summary = d.summary.WithLabelValues(labels...)
	}
	return one
}

func (d *duration) observe(took time.Duration) {
	d.histogram.Observe(took.Seconds())
	if d.summary != nil {
		d.summary.Observe(took.Seconds())
	}
}

func (r *Registry) counters(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: r.cfg.Namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
	r.registry.MustRegister(c)
	return c
}

// desc describes a metric of a collector.
func (r *Registry) desc(subsystem, name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(r.cfg.Namespace, subsystem, name), help, labels, nil)
}

// values sends the metrics of a collector.
type values chan<- prometheus.Metric

func (v values) gauge(d *prometheus.Desc, value float64, labels ...string) {
	v <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (v values) count(d *prometheus.Desc, value uint64, labels ...string) {
	v <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// oneIf is 1 if b is set, else 0.
func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
