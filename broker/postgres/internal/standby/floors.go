package standby

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

type Floors struct {
	outboxes []string // names of the tables
	shards   int
	list     [][]*Floor
}

// NewFloors returns the floors of tables with equally many shards.
func NewFloors(shards int, outboxes ...string) *Floors {
	f := &Floors{outboxes: outboxes, shards: shards}
	for range outboxes {
		of := make([]*Floor, shards)
		for i := range of {
			of[i] = new(Floor)
		}
		f.list = append(f.list, of)
	}
	return f
}

// At returns the floor of a shard.
func (f *Floors) At(table, shard int) *Floor { return f.list[table][shard] }

// Changed says that channels have changed without a row in the outbox. db is the primary.
func (f *Floors) Changed(ctx context.Context, db Sender, table int, channels ...string) {
	newest, err := f.newest(ctx, db, table)
	for _, ch := range channels {
		shard := schema.ShardOf(ch, f.shards)
		if err != nil {
			f.At(table, shard).Blind()
			continue
		}
		f.At(table, shard).Changed(ch, newest[shard])
	}
}

// Settle ends the blindness of shards whose newest row Changed could not read.
func (f *Floors) Settle(ctx context.Context, db Sender, timeout time.Duration) error {
	var failures []error
	for table, of := range f.list {
		blind := make([]uint64, len(of))
		for shard := range of {
			blind[shard] = of[shard].Blindness()
		}
		if slices.Max(blind) == 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, timeout)
		newest, err := f.newest(within, db, table)
		cancel()
		failures = append(failures, err)
		for shard := range newest {
			of[shard].Sees(newest[shard], blind[shard])
		}
	}
	return errors.Join(failures...)
}

// newest returns the newest row of each shard of an outbox, 0 if there is none.
func (f *Floors) newest(ctx context.Context, db Sender, table int) (ids []int64, err error) {
	var batch pgx.Batch
	batch.Queue(changefeed.InOrder)
	batch.Queue(`SELECT s, coalesce((SELECT x.id FROM `+f.outboxes[table]+` x WHERE x.shard_id = s ORDER BY x.id DESC LIMIT 1), 0)
		FROM generate_series(0, $1::int - 1) s`, f.shards)
	results := db.SendBatch(ctx, &batch)
	defer func() { err = cmp.Or(err, results.Close()) }()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	ids = make([]int64, f.shards)
	var shard int
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&shard, &id}, func() error {
		ids[shard] = id
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}
