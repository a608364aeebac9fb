package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// upkeep makes and drops partitions and deletes expired rows. All nodes do; a node finds the work of the others done.
func (b *Broker) upkeep(ctx context.Context) {
	ticker := time.NewTicker(b.cfg.CleanupInterval)
	defer ticker.Stop()
	for {
		err := b.tidy(ctx)
		if err != nil && ctx.Err() == nil {
			b.cfg.Logger.Warn("postgres: upkeep fails, trying again", "engine", b.part, "interval_ms", b.cfg.CleanupInterval.Milliseconds(), "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Broker) tidy(ctx context.Context) error {
	var failures []error
	var trouble *string
	for _, part := range []struct {
		set               *schema.Set
		shards, retention int
	}{
		{b.sets.Stream, b.cfg.NumShards, b.cfg.PartitionRetentionDays},
		{b.sets.Map, b.cfg.NumShards, b.cfg.PartitionRetentionDays},
		{b.sets.Control, b.cfg.ControlNumShards, b.cfg.ControlRetentionDays},
	} {
		if b.alone && part.set != b.sets.Control {
			continue
		}
		err := part.set.Partition(ctx, b.db, b.cfg.PartitionLookaheadDays)
		if part.retention > 0 {
			err = errors.Join(err, part.set.Drop(ctx, b.db, part.retention))
		}
		err = errors.Join(err, part.set.DeleteExpired(ctx, b.db))
		n, shardsErr := part.set.Shards(ctx, b.db)
		if err = errors.Join(err, shardsErr); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", part.set.Name, err))
		}
		if shardsErr == nil && n != part.shards {
			trouble = new(fmt.Sprintf("%s has %d shards, and this node was started with %d: start all nodes with the same number", part.set.Locks(), n, part.shards))
			failures = append(failures, errors.New(*trouble))
		}
	}
	b.trouble.Store(trouble)
	if b.replicas != nil {
		failures = append(failures, b.floors.Settle(ctx, b.db, b.cfg.Timeout))
	}
	return errors.Join(failures...)
}

// Health is Traits.Health: one element, whose delay is the duration of the last look for new rows.
func (b *Broker) Health() []broker.Health {
	h := broker.Health{Part: b.part, Err: b.lifecycle.Check(context.Background())}
	if h.Err != nil {
		return []broker.Health{h}
	}
	for _, feed := range []*changefeed.Feed{b.feed, b.control.feed} {
		if feed == nil {
			continue
		}
		delay, outages, err := feed.Health()
		h.Delay, h.Reconnects = max(h.Delay, delay), max(h.Reconnects, outages)
		if h.Err == nil {
			h.Err = err
		}
	}
	if trouble := b.trouble.Load(); trouble != nil && h.Err == nil {
		h.Err = errors.New(*trouble)
	}
	h.Err = cmp.Or(h.Err, b.proof.err())
	return []broker.Health{h}
}
