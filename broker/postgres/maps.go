package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/protocol"
)

// maxPage is the most entries of a page, also if all entries are wanted.
const maxPage = 100_000

// expireBatch is how many entries expire in one transaction.
const expireBatch = 1000

var errUnsteady = errors.New("the channel began and ended again and again")

type maps struct{ b *Broker }

var _ broker.Maps = maps{}

type changing struct {
	groupcommit.Job
	ch   string
	pub  *channel.Publication
	opts *channel.MapOptions

	result channel.MapResult
	err    error
}

func (c *changing) CommitJob() *groupcommit.Job { return &c.Job }

func (b *Broker) mapQueue(shard int) *groupcommit.Queue[*changing] {
	size := 0
	return &groupcommit.Queue[*changing]{
		Write: func(batch []*changing) { b.writeMaps(shard, batch) },
		Fail:  func(c *changing, err error) { c.err = err },
		Go:    b.goes,
		Fits: func(batch []*changing, c *changing) bool {
			if len(batch) == 1 {
				size = len(batch[0].pub.Data)
			}
			size += len(c.pub.Data)
			return len(batch) < maxItems && size <= maxBytes
		},
	}
}

// Change implements broker.Maps. Changes that are made at a time share transactions, as publications do.
func (m maps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	if err := broker.CheckChange(pub, &opts); err != nil {
		return channel.MapResult{}, err
	}
	shard, err := m.b.shardOf(ctx, ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	for _, name := range []string{pub.Key, opts.IdempotencyKey, opts.VersionEpoch} {
		if err := schema.CheckName(name); err != nil {
			return channel.MapResult{}, err
		}
	}
	if err := schema.CheckPublication(pub, m.b.cfg.BinaryData); err != nil {
		return channel.MapResult{}, err
	}
	if x := opts.Expected; x != nil && (x.Offset > math.MaxInt64 || schema.CheckName(x.Epoch) != nil) {
		return channel.MapResult{}, protocol.ErrorBadRequest
	}
	enginekit.Stamp(pub, time.Now())
	c := &changing{ch: ch, pub: pub, opts: &opts}
	group := groupcommit.NewGroup(1)
	group.Join(&c.Job)
	m.b.changes[shard].Add(c)
	if err := m.b.await(ctx, group); err != nil && !c.Done() {
		return channel.MapResult{}, err
	}
	return c.result, c.err
}

func (b *Broker) writeMaps(shard int, batch []*changing) {
	do := func(ctx context.Context, batch []*changing) error { return b.changeEach(ctx, shard, batch) }
	if writeBatch(b, target{ofMaps, shard}, batch, do, func(c *changing, err error) { c.err = err }) {
		b.wake(mapTable, shard)
	}
}

type mapColumns struct {
	channels, keys, modes, versions               []string
	ephemeral, deltas, refresh                    []bool
	keyTTLs, streamTTLs, metaTTLs, idempotentTTLs []int64
	sizes, maxEntries                             []int32
	expected                                      []*int64
	expectedEpochs, idempotentKeys                []*string
	arrays                                        schema.Arrays
}

func (b *Broker) collectChanges(batch []*changing) (*mapColumns, error) {
	c := &mapColumns{arrays: schema.Arrays{Binary: b.cfg.BinaryData}}
	for _, x := range batch {
		o := x.opts
		c.channels = append(c.channels, x.ch)
		c.keys = append(c.keys, x.pub.Key)
		c.modes = append(c.modes, string(o.KeyMode))
		c.versions = append(c.versions, o.VersionEpoch)
		c.ephemeral = append(c.ephemeral, o.Ephemeral())
		c.deltas = append(c.deltas, o.Delta)
		c.refresh = append(c.refresh, o.RefreshTTL)
		c.keyTTLs = append(c.keyTTLs, micros(o.KeyTTL))
		c.streamTTLs = append(c.streamTTLs, micros(o.StreamTTL))
		c.metaTTLs = append(c.metaTTLs, micros(o.MetaTTL))
		c.sizes = append(c.sizes, int32(min(o.StreamSize, math.MaxInt32)))
		c.maxEntries = append(c.maxEntries, int32(max(0, min(o.MaxEntries, math.MaxInt32))))
		var expected *int64
		var epoch *string
		if o.Expected != nil {
			expected, epoch = new(int64(o.Expected.Offset)), &o.Expected.Epoch
		}
		c.expected, c.expectedEpochs = append(c.expected, expected), append(c.expectedEpochs, epoch)
		c.idempotentKeys = append(c.idempotentKeys, keyOrNil(o.IdempotencyKey))
		c.idempotentTTLs = append(c.idempotentTTLs, micros(enginekit.PositiveOr(o.IdempotencyTTL, b.cfg.IdempotentResultTTL)))
		if err := c.arrays.Add(x.pub); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (b *Broker) changeEach(ctx context.Context, shard int, batch []*changing) error {
	c, err := b.collectChanges(batch)
	if err != nil {
		return err
	}
	args := []any{
		b.cfg.NumShards, c.channels, c.keys, c.ephemeral, c.keyTTLs, c.streamTTLs, c.sizes, c.metaTTLs, c.modes, c.expected, c.expectedEpochs,
		c.versions, c.idempotentKeys, c.idempotentTTLs, c.deltas, c.refresh, c.maxEntries,
	}
	return b.do(ctx, mapTable, shard, b.sql.changeEach, c.arrays.Keyed(c.arrays.Args(args), false), func(rows pgx.Rows) error {
		var item int
		var offset int64
		var epoch string
		var reason *string
		var e entry
		if err := rows.Scan(append([]any{&item, &offset, &epoch, &reason}, e.targets()...)...); err != nil {
			return err
		}
		x := batch[item-1]
		x.result = channel.MapResult{Position: channel.StreamPosition{Offset: uint64(offset), Epoch: epoch}}
		if reason != nil {
			x.result.Suppressed = broker.SuppressReason(*reason)
		}
		if e.offset != nil {
			e.key = &x.pub.Key
			x.result.Current = e.publication()
		}
		return nil
	})
}

type entry struct {
	key, client, user       *string
	offset                  *int64
	data, tags, conn, chann []byte
	time, version, score    *int64
}

func (e *entry) targets() []any {
	return []any{&e.offset, &e.data, &e.tags, &e.client, &e.user, &e.conn, &e.chann, &e.time, &e.version, &e.score}
}

func (e *entry) publication() *channel.Publication {
	number := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	return &channel.Publication{
		Key: *e.key, Offset: uint64(number(e.offset)), Data: e.data, Tags: schema.ParseTags(e.tags),
		Info: schema.NewInfo(e.client, e.user, e.conn, e.chann), Time: number(e.time), Version: uint64(number(e.version)), Score: number(e.score),
	}
}

// State implements broker.Maps. A page and its position are of one moment. Limit < 0 reads at most 100,000 entries.
func (m maps) State(ctx context.Context, ch string, filter channel.StateFilter) (channel.State, error) {
	shard, err := m.b.shardOf(ctx, ch)
	if err != nil {
		return channel.State{}, err
	}
	if schema.CheckName(filter.Cursor) != nil || schema.CheckName(filter.Key) != nil {
		return channel.State{}, protocol.ErrorBadRequest
	}
	ctx, cancel := context.WithTimeout(ctx, m.b.cfg.Timeout)
	defer cancel()
	if state, ok := m.b.stateOfReplica(ctx, shard, ch, &filter); ok {
		return state, nil
	}
	for range readTries {
		state, known, err := readState(ctx, m.b.primary(shard), ch, &filter)
		if err != nil || known {
			return state, m.b.explain(err)
		}
		_, err = m.b.db.Exec(ctx, m.b.sql.touch, ch, micros(m.b.cfg.HistoryMetaTTL))
		if err != nil && !undone(err) {
			return channel.State{}, m.b.explain(err)
		}
		m.b.changed(ctx, mapTable, ch)
	}
	return channel.State{}, m.b.explain(errUnsteady)
}

func readState(ctx context.Context, from reader, ch string, f *channel.StateFilter) (s channel.State, known bool, err error) {
	limit := f.Limit
	if limit < 0 || limit > maxPage {
		limit = maxPage
	}
	ask := limit + 1 // to see whether there is another page
	if limit == 0 {
		ask = 0
	}
	name, args := "page", []any{ch, f.Cursor, ask}
	if f.Key != "" {
		name, args = "entry", []any{ch, f.Key}
	}
	err = from(ctx, mapTable, name, args, func(rows pgx.Rows) error {
		known = true
		var e entry
		var offset int64
		if err := rows.Scan(append([]any{&offset, &s.Top.Epoch, &s.Count, &e.key}, e.targets()...)...); err != nil {
			return err
		}
		s.Top.Offset = uint64(offset)
		if e.key != nil {
			s.Entries = append(s.Entries, e.publication())
		}
		return nil
	})
	if err != nil {
		return channel.State{}, false, err
	}
	if f.Key == "" && limit > 0 && len(s.Entries) > limit {
		s.Entries = s.Entries[:limit]
		s.Cursor = s.Entries[limit-1].Key
	}
	return s, known, nil
}

func (m maps) Clear(ctx context.Context, ch string) error {
	shard, err := m.b.shardOf(ctx, ch)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, m.b.cfg.Timeout)
	defer cancel()
	err = m.b.do(ctx, mapTable, shard, m.b.sql.clear, []any{ch, m.b.cfg.NumShards}, func(pgx.Rows) error { return nil })
	if err != nil {
		return m.b.explain(err)
	}
	m.b.wake(mapTable, shard)
	return nil
}

// expireMaps removes expired entries until ctx ends. All nodes do; the lock of the shard and a look behind it make each
// removal happen once.
func (b *Broker) expireMaps(ctx context.Context) {
	var outage logging.Outage
	enginekit.Every(ctx, b.cfg.MapExpiryInterval, func() {
		began := time.Now()
		err := b.expireDue(ctx)
		if ctx.Err() != nil {
			return
		}
		b.expiry.Looked(began, err)
		if err == nil {
			outage.End()
		} else if outage.Fail(err) == 1 {
			b.cfg.Logger.Warn("postgres: entries of maps do not expire, trying again", "engine", b.part, "error", err)
		}
	})
}

func (b *Broker) expireDue(ctx context.Context) error {
	for {
		due, found, err := b.due(ctx)
		if err != nil {
			return err
		}
		for shard, channels := range due {
			var removed int
			err := b.write(target{ofMaps, shard}, func(ctx context.Context) error {
				return b.do(ctx, mapTable, shard, b.sql.expireShard, []any{channels, expireBatch, b.cfg.NumShards}, func(rows pgx.Rows) error {
					return rows.Scan(&removed)
				})
			})
			if err != nil {
				return err
			}
			b.expiry.Removed(removed)
			if removed > 0 {
				b.wake(mapTable, shard)
			}
		}
		if found < expireBatch {
			return nil
		}
	}
}

// due returns maps with expired entries by shard, and how many entries were found.
func (b *Broker) due(ctx context.Context) (due map[int][]string, found int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	rows, err := b.db.Query(ctx, b.sql.expired, b.cfg.NumShards, expireBatch)
	if err != nil {
		return nil, 0, err
	}
	due = make(map[int][]string)
	var shard int
	var channels []string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&shard, &channels, &n}, func() error {
		due[shard] = channels
		channels = nil
		found += n
		return nil
	})
	return due, found, err
}
