package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/conn"
	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/reply"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/broker/redis/internal/seen"
	"github.com/gyrohq/gyro/broker/redis/internal/slab"
	"github.com/gyrohq/gyro/channel"
)

const (
	// lanesPerShard of a batch are under way at a time, so that one chunk is prepared
	// while Redis works on another. A channel is in one share: its items keep their
	// order.
	lanesPerShard = 2
	// minLane is how many items are worth a share of their own.
	minLane = 64
	// maxChunk bounds the payload of a chunk in bytes.
	maxChunk = 4 << 20
)

// PublishBatch is Traits.Batch. Items go out as pipelined chunks
// of up to 1,000, per shard at a time. Items of one channel keep their order.
func (b *Broker) PublishBatch(ctx context.Context, batch []broker.BatchItem) {
	for i := range batch {
		batch[i].Unkept = true // it is encoded
	}
	if len(batch) == 1 {
		item := &batch[0]
		item.Result, item.Err = b.Publish(ctx, item.Channel, item.Pub, item.Options)
		return
	}
	shards, err := b.running(ctx)
	if err != nil {
		for i := range batch {
			batch[i].Result, batch[i].Err = broker.PublishResult{}, err
		}
		return
	}
	now := time.Now()
	count := len(shards)
	if len(batch) >= 2*minLane {
		count *= lanesPerShard
	}
	shares := make([]share, count)
	for i := range shares {
		shares[i] = share{broker: b, shard: shards[i%len(shards)], batch: batch}
	}
	for i := range batch {
		item := &batch[i]
		item.Result, item.Err = broker.PublishResult{}, nil
		stamp(item.Pub, now) // here, as shares may have publications in common
		hash := keys.Hash(item.Channel)
		at := keys.Jump(hash, len(shards))
		if item.Err = shards[at].names.Check(item.Channel); item.Err != nil {
			continue
		}
		if b.engine.cfg.SkipPubSub && !item.Options.Kept() && item.Options.IdempotencyKey == "" {
			continue
		}
		if count > len(shards) && hash>>32&1 == 1 {
			at += len(shards)
		}
		shares[at].items = append(shares[at].items, shareItem{index: int32(i), hash: hash})
	}
	shares = slices.DeleteFunc(shares, func(l share) bool { return len(l.items) == 0 })
	if len(shares) == 0 {
		return
	}
	var group sync.WaitGroup
	for i := range shares[1:] {
		group.Go(func() { shares[1+i].run(ctx) })
	}
	shares[0].run(ctx)
	group.Wait()
}

// share is a part of a batch whose items go to one shard, in their order.
type share struct {
	broker *Broker
	shard  *shard
	batch  []broker.BatchItem
	items  []shareItem

	strings slab.Slab
	calls   []script.Call
	cmds    []rueidis.Completed

	// The publication that was encoded last: items of a broadcast have one in common.
	pub     *channel.Publication
	delta   bool
	payload string
	sum     uint64
}

type shareItem struct {
	index int32
	hash  uint64
	sum   uint64 // of the payload, once it is encoded
}

func (l *share) run(ctx context.Context) {
	l.strings = slab.New(min(256*len(l.items), slab.Max))
	for rest := l.items; len(rest) > 0; {
		n := l.prepare(rest)
		results, cmds := script.RunAll(ctx, l.shard.client, l.calls[:n], l.cmds)
		l.cmds = cmds
		failures := explainer{shard: l.shard}
		for i := range results {
			item := &l.batch[rest[i].index]
			if l.calls[i].Script == nil {
				item.Err = failures.explain(results[i].Error())
				continue
			}
			result, err := reply.Position(results[i])
			item.Result, item.Err = result.PublishResult, failures.explain(err)
			if err == nil && item.Options.Kept() {
				l.broker.acknowledged(l.shard, item.Channel, rest[i].hash, &result, rest[i].sum)
			}
		}
		rest = rest[n:]
	}
}

// prepare makes the calls of the next chunk and returns their number.
func (l *share) prepare(items []shareItem) int {
	items = items[:min(len(items), conn.MaxPipeline)]
	if cap(l.calls) < len(items) {
		l.calls = make([]script.Call, len(items))
	}
	size := 0
	for i, it := range items {
		item := &l.batch[it.index]
		l.encode(item)
		items[i].sum = l.sum
		if size += len(l.payload); size > maxChunk && i > 0 {
			return i
		}
		c := &l.calls[i]
		*c = script.Call{}
		l.broker.publishCall(c, l.shard, &l.strings,
			publishing{item.Channel, it.hash, l.payload, item.Pub.Version}, &item.Options)
	}
	return len(items)
}

func (l *share) encode(item *broker.BatchItem) {
	if delta := unkeptDelta(&item.Options); item.Pub != l.pub || delta != l.delta {
		l.pub, l.delta = item.Pub, delta
		l.payload = l.strings.Publication(item.Pub, delta)
		l.sum = seen.TextSum(l.payload)
	}
}
