package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
)

// Seconds, and numbers of keys.
var (
	cycles = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	items  = []float64{1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000}
)

// Polls exports metrics of shared poll channels. The owner calls answered with the number of keys in a question to a
// proxy and in its answer.
func (r *Registry) Polls(namespace func(ch string) string) (observer func(*observe.Polled), answered func(proxy string, asked, given int)) {
	m := &polls{
		cycle:     r.histograms("shared_poll", "cycle_duration_seconds", "Time from the begin of a cycle to its last answer.", cycles, "channel_namespace"),
		work:      r.histograms("shared_poll", "cycle_work_duration_seconds", "Time that all calls of a cycle took together.", cycles, "channel_namespace"),
		took:      r.histograms("shared_poll", "handler_duration_seconds", "Time that a call took.", prometheus.DefBuckets, "trigger", "channel_namespace"),
		waited:    r.histograms("shared_poll", "sem_wait_duration_seconds", "Time that a call waited for others to end.", prometheus.DefBuckets, "trigger", "channel_namespace"),
		errors:    r.counters("shared_poll", "handler_error_count", "Calls without an answer.", "trigger", "channel_namespace"),
		items:     r.counters("shared_poll", "items_count", "Keys that were asked for, and what came of them.", "trigger", "result", "channel_namespace"),
		notify:    r.counters("shared_poll", "notify_count", "Notifications of keys.", "channel_namespace"),
		dropped:   r.counters("shared_poll", "dropped_notify_count", "Notifications of keys that nobody tracks.", "channel_namespace"),
		published: r.counters("shared_poll", "publish_count", "Values that were published.", "result", "channel_namespace"),
		of:        namespace,
	}
	asked := r.histograms("shared_poll_proxy", "request_items", "Keys in a question to the backend.", items, "name")
	given := r.histograms("shared_poll_proxy", "response_items", "Keys in an answer of the backend.", items, "name")
	return m.observe, func(proxy string, n, answers int) {
		asked.WithLabelValues(proxy).Observe(float64(n))
		given.WithLabelValues(proxy).Observe(float64(answers))
	}
}

// Notifications exports metrics of notifications of keys. The owner calls the function for each message.
func (r *Registry) Notifications() func(*notify.Received) {
	messages := r.counters("shared_poll", "notification_messages_total", "Messages with notifications of keys.", "result")
	items := r.counters("shared_poll", "notification_items_total", "Items of messages with notifications of keys.", "result")
	accepted, malformed := messages.WithLabelValues("accepted"), messages.WithLabelValues("malformed")
	tracked, ignored, invalid := items.WithLabelValues("tracked"), items.WithLabelValues("ignored"), items.WithLabelValues("malformed")
	return func(m *notify.Received) {
		if m.Malformed {
			malformed.Inc()
			return
		}
		accepted.Inc()
		tracked.Add(float64(m.Tracked))
		ignored.Add(float64(m.Ignored))
		invalid.Add(float64(m.Invalid))
	}
}

// WatchPolls exports the numbers of channels and keys.
func (r *Registry) WatchPolls(p channel.Polls) {
	r.gauge("shared_poll", "num_channels", "Shared poll channels with subscribers.", func() float64 { channels, _ := p.Size(); return float64(channels) })
	r.gauge("shared_poll", "num_keys", "Keys that clients track.", func() float64 { _, keys := p.Size(); return float64(keys) })
}

func (r *Registry) histograms(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Namespace: r.namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}
	if r.native {
		o.Buckets, o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = nil, 1.1, 200
	}
	h := prometheus.NewHistogramVec(o, labels)
	r.others = append(r.others, h)
	return h
}

type polls struct {
	cycle, work, took, waited                 *prometheus.HistogramVec
	errors, items, notify, dropped, published *prometheus.CounterVec
	of                                        func(ch string) string
}

func (m *polls) observe(p *observe.Polled) {
	of, trigger := m.of(p.Channel), p.Kind.String()
	switch p.Kind {
	case observe.PollCycle:
		m.cycle.WithLabelValues(of).Observe(p.Took.Seconds())
		m.work.WithLabelValues(of).Observe(p.Work.Seconds())
	case observe.PollPublished:
		result := "skipped"
		if p.Changed > 0 {
			result = "applied"
		}
		m.published.WithLabelValues(result, of).Inc()
	case observe.PollNotified:
		m.notify.WithLabelValues(of).Inc()
		if p.Failed {
			m.dropped.WithLabelValues(of).Inc()
		}
	default:
		m.took.WithLabelValues(trigger, of).Observe(p.Took.Seconds())
		m.waited.WithLabelValues(trigger, of).Observe(p.Waited.Seconds())
		if p.Failed {
			m.errors.WithLabelValues(trigger, of).Inc()
		}
		for result, n := range map[string]int{"polled": p.Keys, "changed": p.Changed, "unchanged": p.Unchanged, "removed": p.Removed} {
			m.items.WithLabelValues(trigger, result, of).Add(float64(n))
		}
	}
}
