package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/server/internal/proxy"
)

// Proxies exports the calls to backends. The function returns the meter of a proxy for one kind of event.
func (r *Registry) Proxies() func(protocol string, e proxy.Event, name string) proxy.Meter {
	durations := r.Durations("proxy", "duration_seconds", "Time that a call to a backend took", nil, "protocol", "type", "name")
	errors := r.counters("proxy", "errors", "Calls to a backend that got no answer.", "protocol", "type", "name")
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: r.namespace, Subsystem: "proxy", Name: "inflight_requests", Help: "Calls to a backend that are under way or wait.",
	}, []string{"protocol", "type", "name"})
	streams := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: r.namespace, Subsystem: "proxy", Name: "streams", Help: "Streams of subscriptions that are open to a backend.",
	}, []string{"name"})
	broken := r.counters("proxy", "streams_broken_total", "Streams of subscriptions that ended because of a fault.", "name")
	r.others = append(r.others, inFlight, streams)
	var mu sync.Mutex
	meters := make(map[[3]string]*proxyMeter)
	return func(protocol string, e proxy.Event, name string) proxy.Meter {
		labels := [3]string{protocol, e.String(), name}
		mu.Lock()
		defer mu.Unlock()
		m := meters[labels]
		if m == nil {
			m = &proxyMeter{took: durations.With(labels[:]...), errors: errors.WithLabelValues(labels[:]...)}
			if e != proxy.SharedPollRefresh { // the node makes these calls, and bounds them
				m.inFlight = inFlight.WithLabelValues(labels[:]...)
			}
			if e == proxy.SubscribeStream {
				m.streams, m.broken = streams.WithLabelValues(name), broken.WithLabelValues(name)
			}
			meters[labels] = m
		}
		return m
	}
}

type proxyMeter struct {
	took     *metrics.Duration
	errors   prometheus.Counter
	inFlight prometheus.Gauge // nil if these calls are not counted
	streams  prometheus.Gauge // these are of subscription streams alone
	broken   prometheus.Counter
}

// Began implements proxy.Meter.
func (m *proxyMeter) Began() { m.count(1) }

func (m *proxyMeter) count(n float64) {
	if m.inFlight != nil {
		m.inFlight.Add(n)
	}
}

// Ended implements proxy.Meter.
func (m *proxyMeter) Ended(took time.Duration, failed bool) {
	m.count(-1)
	m.took.Observe(took)
	if failed {
		m.errors.Inc()
	}
}

// Opened implements proxy.Meter.
func (m *proxyMeter) Opened() { m.streams.Inc() }

// Closed implements proxy.Meter.
func (m *proxyMeter) Closed(broken bool) {
	m.streams.Dec()
	if broken {
		m.broken.Inc()
	}
}
