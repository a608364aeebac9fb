// Package metrics exports the state and the work of the server to Prometheus. It is the only
// package that imports Prometheus. Names, labels and buckets are part of the server's
// interface: docs/metrics.md lists them.
//
// Values of labels never come from outside. Nothing here is on the way of a publication to its
// subscribers: numbers that other packages count are read at each scrape.
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
	// Namespace is the start of the names of all metrics, except those of the Go runtime and of
	// the process: letters, digits and underscores.
	Namespace string
	// NativeHistograms makes all histograms native ones, and omits the summaries.
	NativeHistograms bool
	// Logger gets an error for metrics that cannot be collected; nil: slog.Default().
	Logger *slog.Logger
}

// Registry has the metrics of one server. A process may have several, independent of each other.
// Each method that adds metrics is called at most once, before the first scrape.
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

// Handler serves the metrics. It does not offer OpenMetrics, which would append _total to the
// names of counters that dashboards know without it.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog{r.cfg.Logger},
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		CoalesceGather:      true,
	})
}

// maxScrapes is how many scrapes are answered at a time; more are refused.
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

// Parameters of native histograms.
const (
	nativeFactor  = 1.1
	nativeBuckets = 200
	nativeReset   = time.Hour
)

// objectives are the quantiles of summaries, over ten minutes, and the error that each may have.
var objectives = map[float64]float64{0.5: 0.05, 0.99: 0.001, 0.999: 0.0001}

// durations measures times by labels, in a summary and in a histogram, whose name ends with
// _histogram.
type durations struct {
	summary   *prometheus.SummaryVec // nil with native histograms
	histogram *prometheus.HistogramVec
}

// durations registers a summary and its histogram. help is a sentence without the period.
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

// duration measures times for certain values of the labels.
type duration struct {
	summary   prometheus.Observer // nil: none
	histogram prometheus.Observer
}

// with returns the duration for values of the labels. It is called once for each combination.
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
