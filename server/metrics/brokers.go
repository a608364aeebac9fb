package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/broker"
)

// Brokers exports brokers by name: the health of those that report it, and the metrics of their
// own.
func (r *Registry) Brokers(brokers map[string]broker.Traits) {
	shard := func(name, help string) *prometheus.Desc {
		return r.desc("broker", name, help, "broker_name", "shard")
	}
	r.registry.MustRegister(&brokerCollector{
		registry: r, brokers: brokers,
		delay:      shard("canary_delay_seconds", "Time that the newest canary took through the broker's shard and back."),
		delivers:   shard("delivers", "1 if canaries prove that the broker's shard delivers, else 0."),
		reconnects: shard("reconnects_total", "Connections to the broker's shard for receiving, after the first."),
	})
}

type brokerCollector struct {
	registry                    *Registry
	brokers                     map[string]broker.Traits
	delay, delivers, reconnects *prometheus.Desc
}

// Describe implements prometheus.Collector. It describes nothing, as the metrics of brokers are
// known only once they are collected.
func (c *brokerCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *brokerCollector) Collect(ch chan<- prometheus.Metric) {
	out := values(ch)
	for name, b := range c.brokers {
		if b.Health != nil {
			for i, h := range b.Health() {
				c.shard(out, name, strconv.Itoa(i), h)
			}
		}
		if b.Metrics != nil {
			for _, m := range b.Metrics() {
				c.own(out, name, b.Name, m)
			}
		}
	}
}

func (c *brokerCollector) shard(out values, name, shard string, h broker.Health) {
	if h.Delay > 0 { // else no canary has come back yet
		out.gauge(c.delay, h.Delay.Seconds(), name, shard)
	}
	out.gauge(c.delivers, oneIf(h.Err == nil), name, shard)
	out.count(c.reconnects, h.Reconnects, name, shard)
}

// own exports a metric of the broker's own. If Prometheus refuses the metric, the scrape logs
// that and has all others.
func (c *brokerCollector) own(out values, name, engine string, m broker.Metric) {
	labels := prometheus.Labels{"broker_name": name}
	maps.Copy(labels, m.Labels)
	kind := prometheus.GaugeValue
	if m.Counter {
		kind = prometheus.CounterValue
	}
	full := prometheus.BuildFQName(c.registry.cfg.Namespace, "broker", engine+"_"+m.Name)
	desc := prometheus.NewDesc(full, m.Help, nil, labels)
	metric, err := prometheus.NewConstMetric(desc, kind, m.Value)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	out <- metric
}
