package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/server/internal/queues"
)

// Consumers exports metrics of each consumer from the first call of the function for it on.
func (r *Registry) Consumers() func(name string) queues.Meter {
	const subsystem, label = "consumers", "consumer_name"
	processed := r.counters(subsystem, "messages_processed_total", "Messages that are done: executed, skipped or given up.", label)
	failed := r.counters(subsystem, "errors_total", "Failed attempts to execute a message or to use the queue.", label)
	gaveUp := r.counters(subsystem, "given_up_total", "Messages that were refused, or failed for too long.", label)
	lag := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: r.namespace, Subsystem: subsystem, Name: "lag", Help: "Messages that wait, by stream or partition.",
	}, []string{label, "part"})
	r.others = append(r.others, lag)
	return func(name string) queues.Meter {
		return &consumerMeter{
			processed: processed.WithLabelValues(name), failed: failed.WithLabelValues(name), gaveUp: gaveUp.WithLabelValues(name),
			lag: lag.MustCurryWith(prometheus.Labels{label: name}),
		}
	}
}

type consumerMeter struct {
	processed, failed, gaveUp prometheus.Counter
	lag                       *prometheus.GaugeVec
}

func (m *consumerMeter) Processed(n int) { m.processed.Add(float64(n)) }

func (m *consumerMeter) Failed() { m.failed.Inc() }

func (m *consumerMeter) GaveUp(n int) { m.gaveUp.Add(float64(n)) }

func (m *consumerMeter) Lag(part string, messages int64) {
	m.lag.WithLabelValues(part).Set(float64(messages))
}
