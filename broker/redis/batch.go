package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/channel"
)

const (
	// With two shares of a batch, one chunk is prepared while Redis works on another. All items of a channel are in one
	// share.
	sharesPerShard = 2
	// minShare items are worth a share of their own.
	minShare = 64
	// maxChunk is in bytes of payload.
	maxChunk = 4 << 20
)

// PublishBatch is Traits.Batch. Each shard gets its items as pipelined chunks of up to 1,000, all shards at a time.
// Items of one channel keep their order.
func (b *Broker) PublishBatch(ctx context.Context, batch []broker.BatchItem) {
	for i := range batch {
		batch[i].Unkept = true // Redis gets an encoded copy
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
	shares := b.shares(shards, batch)
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

// shares divides a batch among the shards. Items that need no command are in no share.
func (b *Broker) shares(shards []*shard, batch []broker.BatchItem) []share {
	now := time.Now()
	count := len(shards)
	if len(batch) >= 2*minShare {
		count *= sharesPerShard
	}
	shares := make([]share, count)
	for i := range shares {
		shares[i] = share{broker: b, shard: shards[i%len(shards)], batch: batch}
	}
	for i := range batch {
		item := &batch[i]
		item.Result, item.Err = broker.PublishResult{}, nil
		enginekit.Stamp(item.Pub, now) // not in run, because shares may have publications in common
		hash := format.Hash(item.Channel)
		at := format.Jump(hash, len(shards))
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
	return slices.DeleteFunc(shares, func(s share) bool { return len(s.items) == 0 })
}

type share struct {
	broker *Broker
	shard  *shard
	batch  []broker.BatchItem
	items  []shareItem

	strings commands.Strings
	calls   []commands.Call
	cmds    []rueidis.Completed

	// Items of a broadcast have a publication in common.
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

func (s *share) run(ctx context.Context) {
	s.strings = commands.NewStrings(min(256*len(s.items), commands.MaxChunk))
	for rest := s.items; len(rest) > 0; {
		n := s.prepare(rest)
		results, cmds := commands.RunAll(ctx, s.shard.client, s.calls[:n], s.cmds)
		s.cmds = cmds
		failures := s.shard.client.Explainer()
		for i := range results {
			item := &s.batch[rest[i].index]
			if s.calls[i].Script == nil {
				item.Err = failures.Explain(results[i].Error())
				continue
			}
			result, err := commands.ReadPosition(results[i])
			item.Result, item.Err = result.PublishResult, failures.Explain(err)
			if err == nil && item.Options.Kept() {
				s.broker.acknowledged(s.shard, item.Channel, rest[i].hash, &result, rest[i].sum)
			}
		}
		rest = rest[n:]
	}
}

func (s *share) prepare(items []shareItem) int {
	items = items[:min(len(items), servers.MaxPipeline)]
	if cap(s.calls) < len(items) {
		s.calls = make([]commands.Call, len(items))
	}
	size := 0
	for i, it := range items {
		item := &s.batch[it.index]
		s.encode(item)
		items[i].sum = s.sum
		size += len(s.payload)
		if size > maxChunk && i > 0 {
			return i
		}
		c := &s.calls[i]
		c.Reset()
		s.broker.publishCall(c, s.shard, &s.strings,
			publishing{item.Channel, it.hash, s.payload, item.Pub.Version}, &item.Options)
	}
	return len(items)
}

func (s *share) encode(item *broker.BatchItem) {
	if delta := unkeptDelta(&item.Options); item.Pub != s.pub || delta != s.delta {
		s.pub, s.delta = item.Pub, delta
		s.payload = s.strings.Publication(item.Pub, delta)
		s.sum = losses.TextSum(s.payload)
	}
}
