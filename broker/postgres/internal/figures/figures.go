// Package figures names what the engine measures, for monitoring.
package figures

import (
	"strconv"
	"time"

	"github.com/gyrohq/gyro/broker"
)

// Figures are those of a moment.
type Figures struct {
	// Rows that were read of streams and maps.
	Rows uint64
	// Connections in use, and how long statements have waited for one.
	Connections int32
	Waited      time.Duration
	// Lags are those of the shards: how old the newest row was when it was delivered.
	Lags []time.Duration
	// Partitions of the outboxes, one for each day.
	Partitions int
	// Rows that were deleted because they had expired: of channels without anything, and of keys that make publishes idempotent.
	Meta, Idempotency uint64
	Replicas          *Replicas // nil: there are none
	Fanout            *Fanout   // nil: there is none
}

// Replicas tell of reads.
type Replicas struct{ Answers, Repeats, Failures uint64 }

// Fanout tells of rows that other nodes have read.
type Fanout struct {
	Received, Holes, Unsent uint64
	Led                     int
}

// Metrics returns the figures by their names.
func (f *Figures) Metrics() []broker.Metric {
	list := []broker.Metric{
		counter("rows_read_total", "Rows that were read of streams and maps.", float64(f.Rows)),
		{Name: "connections_used", Help: "Connections that are in use.", Value: float64(f.Connections)},
		counter("connection_wait_seconds_total", "Time that statements have waited for a connection.", f.Waited.Seconds()),
		{Name: "partitions", Help: "Partitions of the outboxes of streams and maps.", Value: float64(f.Partitions)},
	}
	for pass, n := range map[string]uint64{"meta": f.Meta, "idempotency": f.Idempotency} {
		m := counter("cleanup_removed_total", "Rows that this node has deleted because they had expired.", float64(n))
		m.Labels = map[string]string{"pass": pass}
		list = append(list, m)
	}
	for shard, lag := range f.Lags {
		list = append(list, broker.Metric{
			Name: "outbox_cursor_lag_seconds", Help: "How old the newest row of the shard was when this node delivered it.",
			Labels: map[string]string{"shard": strconv.Itoa(shard)}, Value: lag.Seconds(),
		})
	}
	if r := f.Replicas; r != nil {
		list = append(list,
			counter("replica_reads_total", "Reads that replicas have answered.", float64(r.Answers)),
			counter("replica_repeats_total", "Reads of the primary because the answer of a replica was, or might have been, too old.", float64(r.Repeats)),
			counter("replica_failures_total", "Reads of the primary because a replica did not answer.", float64(r.Failures)))
	}
	if o := f.Fanout; o != nil {
		list = append(list,
			counter("fanout_rows_total", "Rows that were received from other nodes, and not read.", float64(o.Received)),
			counter("fanout_holes_total", "Messages of other nodes before which some were missing, so that rows were read.", float64(o.Holes)),
			counter("fanout_unsent_total", "Messages to other nodes that could not be sent.", float64(o.Unsent)),
			broker.Metric{Name: "fanout_shards_led", Help: "Shards of streams and maps that this node reads for all.", Value: float64(o.Led)})
	}
	return list
}

func counter(name, help string, value float64) broker.Metric {
	return broker.Metric{Name: name, Help: help, Counter: true, Value: value}
}
