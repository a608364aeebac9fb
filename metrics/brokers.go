package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/broker"
)

// Brokers exports brokers by their names, the label broker_name: their health if they report it, and their own metrics.
// "" names a default broker. It is called once.
func (m *Metrics) Brokers(list map[string]broker.Traits) {
	m.brokers.list = maps.Clone(list)
	m.add(m.brokers)
}

type brokers struct {
	namespace                   string
	list                        map[string]broker.Traits
	delay, delivers, reconnects *prometheus.Desc
	lag, removed, failed        *prometheus.Desc // of entries of maps that expire
}

func newBrokers(m *Metrics) *brokers {
	maps := func(name, help string) *prometheus.Desc { return m.desc("map_broker", name, help, "broker_name") }
	shard := func(name, help string) *prometheus.Desc { return m.desc("broker", name, help, "broker_name", "shard") }
	return &brokers{
		namespace:  m.cfg.Namespace,
		delay:      shard("canary_delay_seconds", "Time that the newest canary took through the broker's shard and back."),
		delivers:   shard("delivers", "1 if canaries prove that the broker's shard delivers, and it takes publications with history; else 0."),
		reconnects: shard("reconnects_total", "Connections to the broker's shard for receiving, after the first."),
		lag:        maps("cleanup_lag_seconds", "Time since the last look for entries of maps that have expired left none behind."),
		removed:    maps("cleanup_removed_count", "Entries of maps that this node has removed because they had expired."),
		failed:     maps("cleanup_errors_count", "Looks for entries of maps that have expired, which failed."),
	}
}

func (b *brokers) export(out values) {
	for name, traits := range b.list {
		if traits.Health != nil {
			for i, h := range traits.Health() {
				b.shard(out, name, strconv.Itoa(i), h)
			}
		}
		if traits.Expiry != nil {
			e := traits.Expiry()
			out.gauge(b.lag, e.Lag.Seconds(), name)
			out.count(b.removed, e.Removed, name)
			out.count(b.failed, e.Failures, name)
		}
		if traits.Metrics != nil {
			for _, m := range traits.Metrics() {
				b.own(out, name, traits.Name, m)
			}
		}
	}
}

func (b *brokers) shard(out values, name, shard string, h broker.Health) {
	if h.Delay > 0 { // else no canary has come back yet
		out.gauge(b.delay, h.Delay.Seconds(), name, shard)
	}
	out.gauge(b.delivers, float64(oneIf(h.Err == nil)), name, shard)
	out.count(b.reconnects, h.Reconnects, name, shard)
}

// own exports a metric of the broker's own. If Prometheus refuses the metric, the scrape reports that and has all
// others.
func (b *brokers) own(out values, name, engine string, m broker.Metric) {
	labels := prometheus.Labels{"broker_name": name}
	maps.Copy(labels, m.Labels)
	kind := prometheus.GaugeValue
	if m.Counter {
		kind = prometheus.CounterValue
	}
	desc := prometheus.NewDesc(prometheus.BuildFQName(b.namespace, "broker", engine+"_"+m.Name), m.Help, nil, labels)
	metric, err := prometheus.NewConstMetric(desc, kind, m.Value)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	out <- metric
}
