package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Durations measure times by labels: in a histogram whose name ends with _histogram, and in a summary of the last ten
// minutes without this end, exact within 4.5%. With native histograms there is no summary.
type Durations struct {
	shape *shape
	since func() time.Duration

	mu  sync.Mutex
	all []*Duration
}

// Duration measures times with certain values of the labels. Any goroutine may use it.
type Duration struct {
	of      *Durations
	labels  []string
	stripes stripes[distribution]
}

// Durations adds a family of times, NAMESPACE_SUBSYSTEM_NAME and NAMESPACE_SUBSYSTEM_NAME_histogram. help is a sentence
// without the period. buckets are upper bounds in seconds; nil means prometheus.DefBuckets. It is called before m is
// registered.
func (m *Metrics) Durations(subsystem, name, help string, buckets []float64, labels ...string) *Durations {
	if buckets == nil {
		buckets = prometheus.DefBuckets
	}
	d := &Durations{shape: m.times(subsystem, name, help, buckets, labels...), since: m.since}
	m.add(d)
	return d
}

// With returns the duration for values of the labels, which is exported once it has measured something. It is called
// once for each combination; the caller keeps the result.
func (d *Durations) With(labels ...string) *Duration {
	one := &Duration{of: d, labels: labels, stripes: newStripes[distribution]()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, one)
	return one
}

// Observe adds a measured time. It allocates nothing after the first times.
func (d *Duration) Observe(took time.Duration) {
	now := d.of.since()
	s := d.stripes.lock()
	s.counts.observe(d.of.shape, took.Seconds(), 1, now)
	s.Unlock()
}

func (d *Durations) export(out values) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.since()
	for _, one := range d.all {
		var sum distribution
		one.stripes.each(func(o *distribution) { sum.add(o, now) })
		sum.export(out, d.shape, now, one.labels...)
	}
}
