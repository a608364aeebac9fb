package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/server/internal/web/certs"
)

// Certificates exports the status of certificates and authorities of TLS listeners, which each scrape asks for.
func (r *Registry) Certificates(status func() []certs.Status) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(r.namespace, "tls", name), help, []string{"key", "host"}, nil)
	}
	r.others = append(r.others, &certificates{
		expires: desc("certificate_expires_timestamp_seconds", "End of the certificate in force, in Unix time."),
		due:     desc("certificate_renewal_due_timestamp_seconds", "Time from which the log warns that the certificate has not been renewed, in Unix time."),
		loaded:  desc("last_load_successful", "1 if what was read last is in force, 0 if it could not be used."),
		status:  status,
	})
}

type certificates struct {
	expires, due, loaded *prometheus.Desc
	status               func() []certs.Status
}

// Describe implements prometheus.Collector.
func (c *certificates) Describe(out chan<- *prometheus.Desc) {
	out <- c.expires
	out <- c.due
	out <- c.loaded
}

// Collect implements prometheus.Collector.
func (c *certificates) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.status() {
		gauge := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, s.Key, s.Host)
		}
		loaded := 1.0
		if s.Refused {
			loaded = 0
		}
		gauge(c.loaded, loaded)
		if !s.Expires.IsZero() {
			gauge(c.expires, float64(s.Expires.Unix()))
			gauge(c.due, float64(s.RenewalDue.Unix()))
		}
	}
}
