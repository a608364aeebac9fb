package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/postgres/internal/groupcommit"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// A transaction takes at most so many publications and bytes.
const (
	maxItems = 2048
	maxBytes = 4 << 20
)

type publishing struct {
	groupcommit.Job
	ch   string
	kind int16
	pub  *channel.Publication
	info *channel.ClientInfo // of a join or a leave
	opts *broker.PublishOptions

	result broker.PublishResult
	err    error
}

func (p *publishing) CommitJob() *groupcommit.Job { return &p.Job }

// conditional publications depend on others, so they are put into their stream one by one.
func (p *publishing) conditional() bool {
	if p.kind != schema.KindPublication {
		return false
	}
	return p.opts.IdempotencyKey != "" || p.opts.Kept() && (p.pub.Version > 0 || p.opts.Delta)
}

func (p *publishing) size() int {
	if p.pub == nil {
		return len(p.ch) + len(p.info.ConnInfo) + len(p.info.ChanInfo)
	}
	return len(p.ch) + len(p.pub.Data)
}

func (p *publishing) check(binary bool) error {
	if p.kind != schema.KindPublication {
		return schema.CheckInfo(p.info, binary)
	}
	if err := schema.CheckName(p.opts.IdempotencyKey); err != nil {
		return err
	}
	if err := schema.CheckName(p.opts.VersionEpoch); err != nil {
		return err
	}
	return schema.CheckPublication(p.pub, binary)
}

func (b *Broker) streamQueue(shard int) *groupcommit.Queue[*publishing] {
	size := 0
	return &groupcommit.Queue[*publishing]{
		Write: func(batch []*publishing) { b.writeStreams(shard, batch) },
		Fail:  func(p *publishing, err error) { p.err = err },
		Go:    b.goes,
		Fits: func(batch []*publishing, p *publishing) bool {
			if len(batch) == 1 {
				size = batch[0].size()
			}
			last := batch[len(batch)-1]
			if p.pub == nil || p.pub != last.pub || p.conditional() {
				size += p.size()
			}
			return len(batch) < maxItems && size <= maxBytes && p.conditional() == last.conditional()
		},
	}
}

// Publish implements broker.Broker. It returns when the publication is committed. An error other than
// protocol.ErrorBadRequest leaves open whether it was.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	shard, err := b.shardOf(ctx, ch)
	if err != nil {
		return broker.PublishResult{}, err
	}
	enginekit.Stamp(pub, time.Now())
	p := &publishing{ch: ch, pub: pub, opts: &opts}
	if err := p.check(b.cfg.BinaryData); err != nil {
		return broker.PublishResult{}, err
	}
	if err := b.send(ctx, shard, p); err != nil {
		return broker.PublishResult{}, err
	}
	return p.result, nil
}

func (b *Broker) tell(ctx context.Context, ch string, kind int16, info *channel.ClientInfo) error {
	shard, err := b.shardOf(ctx, ch)
	if err != nil {
		return err
	}
	p := &publishing{ch: ch, kind: kind, info: info, opts: &broker.PublishOptions{}}
	if err := p.check(b.cfg.BinaryData); err != nil {
		return err
	}
	return b.send(ctx, shard, p)
}

func (b *Broker) send(ctx context.Context, shard int, p *publishing) error {
	group := groupcommit.NewGroup(1)
	group.Join(&p.Job)
	b.streams[shard].Add(p)
	if err := b.await(ctx, group); err != nil && !p.Done() {
		return err
	}
	return p.err
}

// PublishBatch is Traits.Batch. Each shard gets its items in transactions of up to 2,048, all shards at a time. Items of
// one channel keep their order.
func (b *Broker) PublishBatch(ctx context.Context, batch []broker.BatchItem) {
	list := make([]publishing, len(batch))
	shards := make([][]*publishing, b.cfg.NumShards)
	valid := 0
	now := time.Now()
	for i := range batch {
		item := &batch[i]
		item.Unkept = true // PostgreSQL gets an encoded copy
		item.Result = broker.PublishResult{}
		var shard int
		if shard, item.Err = b.shardOf(ctx, item.Channel); item.Err != nil {
			continue
		}
		enginekit.Stamp(item.Pub, now)
		p := &list[i]
		p.ch, p.pub, p.opts = item.Channel, item.Pub, &item.Options
		if i > 0 && item.Pub == batch[i-1].Pub && batch[i-1].Err == nil && item.Options.IdempotencyKey == "" {
			item.Err = schema.CheckName(item.Options.VersionEpoch)
		} else {
			item.Err = p.check(b.cfg.BinaryData)
		}
		if item.Err != nil {
			continue
		}
		shards[shard] = append(shards[shard], p)
		valid++
	}
	if valid == 0 {
		return
	}
	group := groupcommit.NewGroup(valid)
	for shard, items := range shards {
		for _, p := range items {
			p.opts = new(*p.opts) // the batch belongs to the caller when ctx ends
			group.Join(&p.Job)
		}
		if len(items) > 0 {
			b.streams[shard].Add(items...)
		}
	}
	failed := b.await(ctx, group)
	for i := range batch {
		item := &batch[i]
		switch {
		case item.Err != nil:
		case failed == nil || list[i].Done():
			item.Result, item.Err = list[i].result, list[i].err
		default:
			item.Err = failed
		}
	}
}

func (b *Broker) writeStreams(shard int, batch []*publishing) {
	do := func(ctx context.Context, batch []*publishing) error {
		if batch[0].conditional() {
			return b.putEach(ctx, shard, batch)
		}
		return b.putMany(ctx, shard, batch)
	}
	if writeBatch(b, target{ofStreams, shard}, batch, do, func(p *publishing, err error) { p.err = err }) {
		b.wake(streamTable, shard)
	}
}

// writeBatch writes a batch, or sets the errors. If the server refuses a value, each item is written alone, because the
// others are not to blame. It reports whether it has written something.
func writeBatch[T any](b *Broker, at target, batch []T, do func(context.Context, []T) error, fail func(T, error)) (written bool) {
	err := b.write(at, func(ctx context.Context) error { return do(ctx, batch) })
	if err == nil {
		return true
	}
	if len(batch) > 1 && isAboutData(err) {
		for i := range batch {
			written = writeBatch(b, at, batch[i:i+1], do, fail) || written
		}
		return written
	}
	err = b.outcome(err)
	for _, item := range batch {
		fail(item, err)
	}
	return false
}

func (b *Broker) outcome(err error) error {
	if isAboutData(err) {
		b.cfg.Logger.Warn("postgres refuses data", "engine", b.part, "error", err)
		return protocol.ErrorBadRequest
	}
	return b.explain(err)
}

// isAboutData tells that the server refuses a value, such as a number that is too large in JSON.
func isAboutData(err error) bool {
	var answer *pgconn.PgError
	return errors.As(err, &answer) && answer.Code[:2] == "22"
}

// writeTries bounds the attempts of transactions that did nothing.
const writeTries = 4

// await waits for a group, at most for Config.Timeout. A job that was not begun by then is not done.
func (b *Broker) await(ctx context.Context, group *groupcommit.Group) error {
	within, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	if err := group.Wait(within); err != nil {
		return cmp.Or(ctx.Err(), b.explain(err))
	}
	return nil
}

// write does a transaction on a connection for writing, and again if it cannot have been done. If a connection gets no
// answer in time, all are made anew: the others may be dead as well, and each would take as long.
func (b *Broker) write(at target, do func(ctx context.Context) error) (err error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.lifetime.Done():
		return groupcommit.ErrClosed
	}
	defer func() { <-b.slots }()
	ctx, cancel := context.WithTimeout(b.lifetime, b.cfg.Timeout)
	defer cancel()
	began := time.Now()
	defer time.AfterFunc(hangsAfter, func() { b.goes(func() { b.hangs(ctx, at, began) }) }).Stop()
	for range writeTries {
		if err = do(ctx); err == nil || ctx.Err() != nil || !undone(err) {
			break
		}
	}
	switch {
	case err == nil:
	case b.lifetime.Err() != nil:
		return groupcommit.ErrClosed
	case ctx.Err() != nil:
		b.db.Reset()
	}
	if err != nil && !isAboutData(err) {
		b.proof.doubt(at)
	}
	return err
}

// undone tells that a transaction certainly did nothing, for a reason that may be gone: the connection had ended, there
// was a deadlock, or the partition for its rows was made meanwhile, so that the default one does not take them any more.
func undone(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		return pgconn.SafeToRetry(err)
	}
	switch answer.Code {
	case "40P01", "40001":
		return true
	case "23514":
		return strings.HasSuffix(answer.TableName, "_default")
	}
	return false
}

// common are the columns that both functions have.
type common struct {
	channels []string
	sizes    []int32
	ttls     []int64
	metaTTLs []int64
	deltas   []bool
	arrays   schema.Arrays
	kinds    []int16
	versions []string
	keys     []*string
	keyTTLs  []int64
}

func (b *Broker) collect(batch []*publishing, share bool) (*common, error) {
	c := &common{arrays: schema.Arrays{Binary: b.cfg.BinaryData}}
	for i, p := range batch {
		size, ttl := int32(0), int64(0)
		if p.opts.Kept() {
			size, ttl = int32(min(p.opts.HistorySize, math.MaxInt32)), micros(p.opts.HistoryTTL)
		}
		c.channels = append(c.channels, p.ch)
		c.kinds = append(c.kinds, p.kind)
		c.sizes = append(c.sizes, size)
		c.ttls = append(c.ttls, ttl)
		c.metaTTLs = append(c.metaTTLs, micros(enginekit.PositiveOr(p.opts.HistoryMetaTTL, b.cfg.HistoryMetaTTL)))
		c.deltas = append(c.deltas, p.opts.Delta)
		if share && i > 0 {
			continue
		}
		if p.kind != schema.KindPublication {
			c.arrays.AddInfo(p.info, time.Now().UnixMilli())
		} else if err := c.arrays.Add(p.pub); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (b *Broker) putMany(ctx context.Context, shard int, batch []*publishing) error {
	share := len(batch) > 1 && batch[0].pub != nil
	for _, p := range batch {
		share = share && p.pub == batch[0].pub
	}
	c, err := b.collect(batch, share)
	if err != nil {
		return err
	}
	args := []any{b.cfg.NumShards, share, c.channels, c.kinds, c.sizes, c.ttls, c.metaTTLs, c.deltas}
	args = c.arrays.Keyed(c.arrays.Args(args), true)
	var item int
	var offset int64
	var epoch string
	return b.do(ctx, streamTable, shard, b.sql.publishMany, args, func(rows pgx.Rows) error {
		if err := rows.Scan(&item, &offset, &epoch); err != nil {
			return err
		}
		batch[item-1].result = broker.PublishResult{Position: channel.StreamPosition{Offset: uint64(offset), Epoch: epoch}}
		return nil
	})
}

func (b *Broker) putEach(ctx context.Context, shard int, batch []*publishing) error {
	c, err := b.collect(batch, false)
	if err != nil {
		return err
	}
	for _, p := range batch {
		c.versions = append(c.versions, p.opts.VersionEpoch)
		c.keys = append(c.keys, keyOrNil(p.opts.IdempotencyKey))
		c.keyTTLs = append(c.keyTTLs, micros(enginekit.PositiveOr(p.opts.IdempotencyTTL, b.cfg.IdempotentResultTTL)))
	}
	args := []any{b.cfg.NumShards, c.channels, c.sizes, c.ttls, c.metaTTLs, c.deltas, c.versions, c.keys, c.keyTTLs}
	args = c.arrays.Keyed(c.arrays.Args(args), true)
	var item int
	var offset int64
	var epoch string
	var reason *string
	return b.do(ctx, streamTable, shard, b.sql.publishEach, args, func(rows pgx.Rows) error {
		if err := rows.Scan(&item, &offset, &epoch, &reason); err != nil {
			return err
		}
		result := broker.PublishResult{Position: channel.StreamPosition{Offset: uint64(offset), Epoch: epoch}}
		if reason != nil {
			result.Suppressed = broker.SuppressReason(*reason)
		}
		batch[item-1].result = result
		return nil
	})
}

func keyOrNil(key string) *string {
	if key == "" {
		return nil
	}
	return &key
}

// micros is in microseconds: at least 1 if d is positive.
func micros(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return max(1, d.Microseconds())
}
