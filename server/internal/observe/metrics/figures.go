package metrics

import (
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const figuresTTL = time.Second

// Figures are the metrics for programs that read JSON.
type Figures struct {
	Time     int64             `json:"time"` // Unix milliseconds
	Families map[string]Family `json:"families"`
}

// Family has the samples of a name without the namespace.
type Family struct {
	Type    string   `json:"type"` // counter, gauge or histogram
	Samples []Sample `json:"samples"`
}

// Sample is one combination of labels.
type Sample struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
	// Count of the observations of a histogram, and how many of them were not above each bound. Native histograms have
	// no bounds.
	Count   uint64       `json:"count,omitempty"`
	Buckets [][2]float64 `json:"buckets,omitempty"`
}

// Figures returns all metrics but summaries and the metrics of the Go runtime and of the process, at most a second old. Any
// goroutine may call it.
func (r *Registry) Figures() *Figures {
	r.figures.Lock()
	defer r.figures.Unlock()
	if r.gatherer == nil {
		all := prometheus.NewRegistry()
		all.MustRegister(r.Metrics)
		all.MustRegister(r.others...)
		r.gatherer = all
	}
	if now := time.Now(); r.latest == nil || now.Sub(r.latestAt) >= figuresTTL {
		// Metrics that cannot be collected are missing; the metrics endpoint reports them.
		families, _ := r.gatherer.Gather()
		r.latest, r.latestAt = r.figuresOf(families, now), now
	}
	return r.latest
}

func (r *Registry) figuresOf(families []*dto.MetricFamily, now time.Time) *Figures {
	f := &Figures{Time: now.UnixMilli(), Families: make(map[string]Family)}
	for _, family := range families {
		kind := strings.ToLower(family.GetType().String())
		if family.GetType() == dto.MetricType_SUMMARY {
			continue
		}
		out := Family{Type: kind}
		for _, m := range family.GetMetric() {
			out.Samples = append(out.Samples, sampleOf(m))
		}
		f.Families[strings.TrimPrefix(family.GetName(), r.namespace+"_")] = out
	}
	return f
}

func sampleOf(m *dto.Metric) Sample {
	var s Sample
	for _, l := range m.GetLabel() {
		if l.GetValue() == "" {
			continue
		}
		if s.Labels == nil {
			s.Labels = make(map[string]string)
		}
		s.Labels[l.GetName()] = l.GetValue()
	}
	switch {
	case m.Histogram != nil:
		s.Value, s.Count = m.Histogram.GetSampleSum(), m.Histogram.GetSampleCount()
		for _, b := range m.Histogram.GetBucket() {
			if math.IsInf(b.GetUpperBound(), 0) {
				continue // it has Count
			}
			s.Buckets = append(s.Buckets, [2]float64{b.GetUpperBound(), float64(b.GetCumulativeCount())})
		}
	case m.Counter != nil:
		s.Value = m.Counter.GetValue()
	case m.Gauge != nil:
		s.Value = m.Gauge.GetValue()
	}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		s.Value = 0 // JSON has neither
	}
	return s
}
