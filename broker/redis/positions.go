package redis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
)

// Positions is Traits.Positions. Each shard gets the reads as pipelined chunks of up to 1,000, all shards at a time.
func (b *Broker) Positions(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
	shards, err := b.running(ctx)
	if err != nil {
		return slices.Repeat([]broker.PositionResult{{Err: err}}, len(channels))
	}
	results := make([]broker.PositionResult, len(channels))
	parts := make([][]shareItem, len(shards))
	for i, ch := range channels {
		hash := format.Hash(ch)
		at := format.Jump(hash, len(shards))
		if results[i].Err = shards[at].names.Check(ch); results[i].Err == nil {
			parts[at] = append(parts[at], shareItem{index: int32(i), hash: hash})
		}
	}
	var group sync.WaitGroup
	for at, items := range parts {
		if len(items) == 0 {
			continue
		}
		group.Go(func() {
			err := b.readVerified(ctx, shards[at], func() error {
				r := reading{b, shards[at], channels, &broker.HistoryFilter{MetaTTL: metaTTL}, results}
				r.byScript(ctx, r.byCommand(ctx, items))
				return nil
			})
			for _, it := range items {
				if err != nil {
					results[it.index] = broker.PositionResult{Err: err}
				}
			}
		})
	}
	group.Wait()
	return results
}

type reading struct {
	*Broker
	shard    *shard
	channels []string
	filter   *broker.HistoryFilter
	results  []broker.PositionResult // of channels
}

type expected struct {
	item  shareItem
	sub   *losses.Stream
	known losses.Known
}

// byCommand reads the positions of streams that are as expected, at a third of the script's cost for Redis. It returns
// other streams, and those that are not subscribed, need a renewal, or come after a loss: only a script that writes
// shows that a server has become a replica.
func (r *reading) byCommand(ctx context.Context, items []shareItem) (rest []shareItem) {
	now, revision := time.Now(), r.shard.revision()
	text := commands.NewStrings(min(128*len(items), commands.MaxChunk))
	failures := r.shard.client.Explainer()
	for chunk := range slices.Chunk(items, servers.MaxPipeline) {
		list := make([]expected, 0, len(chunk))
		cmds := make([]rueidis.Completed, 0, len(chunk))
		for _, it := range chunk {
			ch := r.channels[it.index]
			sub := r.subscription(r.shard, &text, ch, it.hash)
			if !sub.Lives(now, revision) {
				rest = append(rest, it)
				continue
			}
			list = append(list, expected{it, sub, r.shard.known(ch, it.hash, sub)})
			cmds = append(cmds, r.shard.client.B().Hmget().Key(text.Name(&r.shard.names, r.kinds.Meta, ch, it.hash)).Field("e", "s").Build())
		}
		if len(list) == 0 {
			continue
		}
		answers := r.shard.client.DoMulti(ctx, cmds)
		for i := range list {
			e := &list[i]
			top, err := commands.ReadMeta(answers[i])
			switch {
			case err != nil:
				r.results[e.item.index] = broker.PositionResult{Err: failures.Explain(err)}
			case top.Epoch == "", top.Epoch == e.known.Epoch && top.Offset < e.known.Offset:
				rest = append(rest, e.item)
			default:
				r.results[e.item.index] = broker.PositionResult{Top: top}
				r.read(r.shard, r.channels[e.item.index], e.sub, top, false)
			}
		}
	}
	return rest
}

// byScript renews the lives of the positions, and creates missing streams.
func (r *reading) byScript(ctx context.Context, items []shareItem) {
	var cmds []rueidis.Completed
	revision := r.shard.revision()
	text := commands.NewStrings(min(256*len(items), commands.MaxChunk))
	failures := r.shard.client.Explainer()
	for chunk := range slices.Chunk(items, servers.MaxPipeline) {
		calls := make([]commands.Call, len(chunk))
		subs := make([]*losses.Stream, len(chunk))
		for i, it := range chunk {
			subs[i] = r.subscription(r.shard, &text, r.channels[it.index], it.hash)
			r.historyCall(&calls[i], r.shard, &text, r.channels[it.index], it.hash, subs[i], r.filter)
		}
		var answers []rueidis.RedisResult
		answers, cmds = commands.RunAll(ctx, r.shard.client, calls, cmds)
		for i, it := range chunk {
			result, err := commands.ReadPosition(answers[i])
			r.results[it.index] = broker.PositionResult{Top: result.Position, Err: failures.Explain(err)}
			if err == nil {
				r.read(r.shard, r.channels[it.index], subs[i], result.Position, result.Renewed)
				subs[i].Renewed(r.metaTTL(r.filter), revision)
			}
		}
	}
}
