package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/server/engine"
)

// Brokers exports the brokers over a network.
func (r *Registry) Brokers(stats func() []engine.BrokerStats) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return r.desc("broker", name, help, append([]string{"broker_name"}, labels...)...)
	}
	r.registry.MustRegister(&brokerCollector{
		stats:      stats,
		delay:      desc("canary_delay_seconds", "Time that the newest canary took through the broker's shard and back.", "shard"),
		delivers:   desc("delivers", "1 if canaries prove that the broker's shard delivers, else 0.", "shard"),
		reconnects: desc("reconnects_total", "Connections to the broker's shard for receiving, after the first.", "shard"),
		errors:     desc("redis_pub_sub_errors", "Errors of PUB/SUB, by kind.", "error"),
		dropped:    desc("redis_pub_sub_dropped_messages", "Messages dropped because the node was behind.", "channel_type"),
		buffered: desc("redis_pub_sub_buffered_messages", "Messages that wait for the node, by kind and number of the shard (0 for control).",
			"channel_type", "pub_sub_processor"),
		natsDropped:  desc("nats_dropped_messages_total", "Messages dropped because the node was behind."),
		natsBuffered: desc("nats_buffered_messages", "Messages that wait for the node."),
	})
}

type brokerCollector struct {
	stats                       func() []engine.BrokerStats
	delay, delivers, reconnects *prometheus.Desc
	errors, dropped, buffered   *prometheus.Desc
	natsDropped, natsBuffered   *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *brokerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.delay, c.delivers, c.reconnects, c.errors, c.dropped, c.buffered, c.natsDropped, c.natsBuffered,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *brokerCollector) Collect(ch chan<- prometheus.Metric) {
	out := values(ch)
	for _, b := range c.stats() {
		if b.Redis != nil {
			c.redis(out, b.Name, b.Redis)
		}
		if n := b.NATS; n != nil {
			c.shard(out, b.Name, "0", n.Health, n.Reconnects)
			out.count(c.natsDropped, n.Dropped, b.Name)
			out.gauge(c.natsBuffered, float64(n.Waiting), b.Name)
		}
	}
}

func (c *brokerCollector) shard(out values, name, shard string, h broker.Health, reconnects uint64) {
	if h.Delay > 0 { // else no canary has come back yet
		out.gauge(c.delay, h.Delay.Seconds(), name, shard)
	}
	out.gauge(c.delivers, oneIf(h.Err == nil), name, shard)
	out.count(c.reconnects, reconnects, name, shard)
}

// redis: errors and drops of all shards are added up. (observability.md 3.4 knows no
// label to tell them apart.)
func (c *brokerCollector) redis(out values, name string, r *engine.RedisStats) {
	if len(r.Shards) == 0 {
		return
	}
	var client, control redis.Failures
	var dropped uint64
	subscribes := "subscribe_channel"
	for i := range r.Shards {
		s := &r.Shards[i]
		shard := strconv.Itoa(i)
		c.shard(out, name, shard, s.Health, s.Reconnects)
		out.gauge(c.buffered, float64(s.Waiting), name, "client", shard)
		dropped += s.Dropped
		client.Add(s.Failures)
		if s.ControlFailures != nil {
			control.Add(*s.ControlFailures)
			subscribes = "subscribe_shard_channel"
		}
	}
	out.gauge(c.buffered, float64(r.ControlWaiting), name, "control", "0")
	out.count(c.dropped, dropped, name, "client")
	out.count(c.dropped, r.ControlDropped, name, "control")
	for kind, n := range map[string]uint64{
		"connection": client.Connections, "control_connection": control.Connections,
		"probe_publish": client.Unsent, "control_probe_publish": control.Unsent,
		"probe_timeout": client.Silences, "control_probe_timeout": control.Silences,
		subscribes: client.Subscribes, "subscribe_control_channel": control.Subscribes,
	} {
		out.count(c.errors, n, name, kind)
	}
}
