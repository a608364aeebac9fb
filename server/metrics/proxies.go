package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/server/proxy"
)

// Proxies exports the calls to backends. The function returns the meter of a proxy for one kind of
// event; for the same arguments, the same one.
func (r *Registry) Proxies() func(protocol string, e proxy.Event, name string) proxy.Meter {
	durations := r.Durations("proxy", "duration_seconds", "Time that a call to a backend took", nil, "protocol", "type", "name")
	errors := r.counters("proxy", "errors", "Calls to a backend that got no answer.", "protocol", "type", "name")
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: r.namespace, Subsystem: "proxy", Name: "inflight_requests", Help: "Calls to a backend that are under way or wait.",
	}, []string{"protocol", "type", "name"})
	r.others = append(r.others, inFlight)
	var mu sync.Mutex
	meters := make(map[[3]string]*proxyMeter)
	return func(protocol string, e proxy.Event, name string) proxy.Meter {
		labels := [3]string{protocol, e.String(), name}
		mu.Lock()
		defer mu.Unlock()
		m := meters[labels]
		if m == nil {
			m = &proxyMeter{durations.With(labels[:]...), errors.WithLabelValues(labels[:]...), inFlight.WithLabelValues(labels[:]...)}
			meters[labels] = m
		}
		return m
	}
}

type proxyMeter struct {
	took     *metrics.Duration
	errors   prometheus.Counter
	inFlight prometheus.Gauge
}

// Began implements proxy.Meter.
func (m *proxyMeter) Began() { m.inFlight.Inc() }

// Ended implements proxy.Meter.
func (m *proxyMeter) Ended(took time.Duration, failed bool) {
	m.inFlight.Dec()
	m.took.Observe(took)
	if failed {
		m.errors.Inc()
	}
}
