package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Log exports how many lines the log has lost, which the function counts.
func (r *Registry) Log(lost func() uint64) {
	r.others = append(r.others, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: r.namespace, Subsystem: "log", Name: "dropped_lines_total",
		Help: "Lines of the log that were lost: they came faster than the output takes them, or it could not be written.",
	}, func() float64 { return float64(lost()) }))
}

// Reloads exports the result of the last reload of the configuration. The owner calls the function after each reload.
func (r *Registry) Reloads() func(err error) {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: r.namespace, Subsystem: "config", Name: name, Help: help})
		r.others = append(r.others, g)
		return g
	}
	good := gauge("last_reload_successful", "1 if the last reload of the configuration was taken over, or none was asked for yet; 0 if it was refused.")
	at := gauge("last_reload_success_timestamp_seconds", "When the configuration in force was read, in seconds since 1970.")
	tell := func(err error) {
		if err != nil {
			good.Set(0)
			return
		}
		good.Set(1)
		at.Set(float64(time.Now().UnixMilli()) / 1000)
	}
	tell(nil) // at start
	return tell
}

// PreviousKey exports how many tokens were verified by a previous secret. The function is told of each.
func (r *Registry) PreviousKey() func() {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: r.namespace, Subsystem: "token", Name: "verified_by_previous_key_total",
		Help: "Tokens of clients that hmac_previous_secret_key verified, not hmac_secret_key. While it grows, the previous secret is needed.",
	})
	r.others = append(r.others, c)
	return c.Inc
}
