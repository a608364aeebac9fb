package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// metrics is Traits.Metrics. All are 0 unless the broker runs.
func (b *Broker) metrics() []broker.Metric {
	f := figures{lags: make([]time.Duration, b.cfg.NumShards)}
	if len(b.connections.replicas) > 0 {
		f.replicas = new(replicaFigures)
	}
	if b.cfg.Fanout != nil {
		f.fanout = new(fanoutFigures)
	}
	if b.lifecycle.Check(context.Background()) != nil {
		return f.metrics()
	}
	s := b.db.Stat()
	f.rows, f.lags, f.connections, f.waited = b.feed.Rows(), b.feed.Lags(), s.AcquiredConns(), s.AcquireDuration()
	for _, set := range []*schema.Set{b.sets.Stream, b.sets.Map} {
		f.partitions += int(set.Partitions.Load())
		f.meta, f.idempotency = f.meta+set.DeletedMeta.Load(), f.idempotency+set.Deleted.Load()
	}
	if r := f.replicas; r != nil {
		r.answers, r.repeats, r.failures = b.replicas.Counts()
	}
	if o := f.fanout; o != nil {
		o.received, o.holes, o.unsent, o.led = b.feed.Traffic()
	}
	return f.metrics()
}

type figures struct {
	rows        uint64
	connections int32
	waited      time.Duration
	// By shard: the age of the newest row at its delivery.
	lags       []time.Duration
	partitions int
	// Expired rows that were deleted: of channels without anything, and of idempotency keys.
	meta, idempotency uint64
	replicas          *replicaFigures // nil: there are none
	fanout            *fanoutFigures  // nil: there is none
}

type replicaFigures struct{ answers, repeats, failures uint64 }

// fanoutFigures count rows that other nodes have read.
type fanoutFigures struct {
	received, holes, unsent uint64
	led                     int
}

func (f *figures) metrics() []broker.Metric {
	list := []broker.Metric{
		counter("rows_read_total", "Rows that were read of streams and maps.", float64(f.rows)),
		{Name: "connections_used", Help: "Connections that are in use.", Value: float64(f.connections)},
		counter("connection_wait_seconds_total", "Time that statements have waited for a connection.", f.waited.Seconds()),
		{Name: "partitions", Help: "Partitions of the outboxes of streams and maps.", Value: float64(f.partitions)},
	}
	for pass, n := range map[string]uint64{"meta": f.meta, "idempotency": f.idempotency} {
		m := counter("cleanup_removed_total", "Rows that this node has deleted because they had expired.", float64(n))
		m.Labels = map[string]string{"pass": pass}
		list = append(list, m)
	}
	for shard, lag := range f.lags {
		list = append(list, broker.Metric{
			Name: "outbox_cursor_lag_seconds", Help: "How old the newest row of the shard was when this node delivered it.",
			Labels: map[string]string{"shard": strconv.Itoa(shard)}, Value: lag.Seconds(),
		})
	}
	if r := f.replicas; r != nil {
		list = append(list,
			counter("replica_reads_total", "Reads that replicas have answered.", float64(r.answers)),
			counter("replica_repeats_total", "Reads of the primary because the answer of a replica was, or might have been, too old.", float64(r.repeats)),
			counter("replica_failures_total", "Reads of the primary because a replica did not answer.", float64(r.failures)))
	}
	if o := f.fanout; o != nil {
		list = append(list,
			counter("fanout_rows_total", "Rows that were received from other nodes, and not read.", float64(o.received)),
			counter("fanout_holes_total", "Messages of other nodes before which some were missing, so that rows were read.", float64(o.holes)),
			counter("fanout_unsent_total", "Messages to other nodes that could not be sent.", float64(o.unsent)),
			broker.Metric{Name: "fanout_shards_led", Help: "Shards of streams and maps that this node reads for all.", Value: float64(o.led)})
	}
	return list
}

func counter(name, help string, value float64) broker.Metric {
	return broker.Metric{Name: name, Help: help, Counter: true, Value: value}
}
