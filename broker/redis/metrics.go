package redis

import (
	"context"
	"strconv"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
)

// metrics is Traits.Metrics. All are 0 unless the broker runs.
func (b *Broker) metrics() []broker.Metric {
	c := pubSubCounts{sharded: b.engine.cfg.ShardedPubSubPartitions > 0}
	if _, err := b.running(context.Background()); err != nil {
		return c.metrics()
	}
	for _, receivers := range b.receivers {
		waiting := 0
		for _, r := range receivers {
			s := r.conn.Stats()
			waiting += s.Waiting
			c.dropped += s.Dropped
			if c.sharded && r.partition < 0 {
				c.control.Add(s.Failures)
			} else {
				c.client.Add(s.Failures)
			}
		}
		c.waiting = append(c.waiting, waiting)
	}
	if b.control != nil {
		c.controlWaiting, c.controlDropped = b.control.counts()
	}
	return c.metrics()
}

type pubSubCounts struct {
	sharded bool
	waiting []int // messages for the node, by shard
	dropped uint64
	// client are failures of connections for channels, control of connections for control messages alone.
	client, control pubsub.Failures
	controlWaiting  int
	controlDropped  uint64
}

// metrics has the names of docs/metrics.md. Errors and drops have no label for the shard there, so they are sums.
func (c *pubSubCounts) metrics() (list []broker.Metric) {
	buffered := func(kind string, shard, n int) {
		list = append(list, broker.Metric{
			Name: "pub_sub_buffered_messages", Help: "Messages that wait for the node, by kind and number of the shard (0 for control).",
			Labels: map[string]string{"channel_type": kind, "pub_sub_processor": strconv.Itoa(shard)}, Value: float64(n),
		})
	}
	count := func(name, help, label, value string, n uint64) {
		list = append(list, broker.Metric{
			Name: name, Help: help, Counter: true, Labels: map[string]string{label: value}, Value: float64(n),
		})
	}
	for shard, n := range c.waiting {
		buffered("client", shard, n)
	}
	buffered("control", 0, c.controlWaiting)
	const dropped = "Messages dropped because the node was behind."
	count("pub_sub_dropped_messages", dropped, "channel_type", "client", c.dropped)
	count("pub_sub_dropped_messages", dropped, "channel_type", "control", c.controlDropped)
	subscribes := "subscribe_channel"
	if c.sharded {
		subscribes = "subscribe_shard_channel"
	}
	for kind, n := range map[string]uint64{
		"connection": c.client.Connections, "control_connection": c.control.Connections,
		"probe_publish": c.client.Unsent, "control_probe_publish": c.control.Unsent,
		"probe_timeout": c.client.Timeouts, "control_probe_timeout": c.control.Timeouts,
		subscribes: c.client.Subscribes, "subscribe_control_channel": c.control.Subscribes,
	} {
		count("pub_sub_errors", "Errors of PUB/SUB, by kind.", "error", kind, n)
	}
	return list
}
