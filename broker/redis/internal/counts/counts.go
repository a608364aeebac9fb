// Package counts makes metrics of what the PUB/SUB connections of a broker have counted.
package counts

import (
	"strconv"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
)

// Counts of all shards.
type Counts struct {
	// Sharded is set with sharded PUB/SUB. Control messages have connections of their own
	// then.
	Sharded bool
	Waiting []int // messages for the node, by shard
	Dropped uint64
	// Client are the failures of the connections for channels, Control those of the other
	// connections for control messages.
	Client, Control pubsub.Failures
	// ControlWaiting and ControlDropped are control messages.
	ControlWaiting int
	ControlDropped uint64
}

// Metrics returns the counts under their names of docs/metrics.md. Errors and drops have no
// label for the shard there, so they are sums over all shards.
func (c *Counts) Metrics() (list []broker.Metric) {
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
	for shard, n := range c.Waiting {
		buffered("client", shard, n)
	}
	buffered("control", 0, c.ControlWaiting)
	const dropped = "Messages dropped because the node was behind."
	count("pub_sub_dropped_messages", dropped, "channel_type", "client", c.Dropped)
	count("pub_sub_dropped_messages", dropped, "channel_type", "control", c.ControlDropped)
	subscribes := "subscribe_channel"
	if c.Sharded {
		subscribes = "subscribe_shard_channel"
	}
	for kind, n := range map[string]uint64{
		"connection": c.Client.Connections, "control_connection": c.Control.Connections,
		"probe_publish": c.Client.Unsent, "control_probe_publish": c.Control.Unsent,
		"probe_timeout": c.Client.Silences, "control_probe_timeout": c.Control.Silences,
		subscribes: c.Client.Subscribes, "subscribe_control_channel": c.Control.Subscribes,
	} {
		count("pub_sub_errors", "Errors of PUB/SUB, by kind.", "error", kind, n)
	}
	return list
}
