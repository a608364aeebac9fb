package redis

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/conn"
	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/reply"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/broker/redis/internal/slab"
)

// History implements broker.Broker: one round trip. With Config.HistoryUseLists the
// whole LIST is read whatever the filter.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	s, hash, err := b.place(ctx, ch)
	if err != nil {
		return broker.History{}, err
	}
	m := slab.New(256 + 2*len(ch))
	var c script.Call
	whole := b.historyCall(&c, s, &m, ch, hash, &filter)
	var h broker.History
	err = b.whenSettled(ctx, s, func() (err error) {
		h, err = b.history(ctx, s, &c, &filter, whole)
		return err
	})
	return h, err
}

// history reads; whole is false if that is the position alone.
func (b *Broker) history(ctx context.Context, s *shard, c *script.Call, filter *broker.HistoryFilter, whole bool) (broker.History, error) {
	if !whole {
		result, err := s.position(ctx, c)
		return broker.History{Top: result.Position}, err
	}
	answer, err := script.Run(ctx, s.client, c)
	if err != nil {
		return broker.History{}, err
	}
	var h broker.History
	if b.engine.cfg.HistoryUseLists {
		h, err = reply.List(answer, filter)
	} else {
		h, err = reply.Stream(answer)
	}
	return h, s.client.Explain(err)
}

// historyCall prepares a read. It reports whether publications are read, and not
// the position alone.
func (b *Broker) historyCall(c *script.Call, s *shard, m *slab.Slab, ch string, hash uint64, f *broker.HistoryFilter) bool {
	c.Script = b.kinds.scripts.Read
	c.Key(m.Name(&s.names, b.kinds.history, ch, hash))
	c.Key(m.Name(&s.names, b.kinds.meta, ch, hash))
	c.Arg(m.Epoch())
	c.Arg(m.Milliseconds(positiveOr(f.MetaTTL, b.engine.cfg.HistoryMetaTTL)))
	direction, start := "f", "-"
	switch {
	case f.Limit == 0:
		return false
	case f.Since == nil && f.Reverse:
		direction, start = "r", "+"
	case f.Since == nil:
	case f.Reverse && f.Since.Offset <= 1, !f.Reverse && f.Since.Offset == math.MaxUint64:
		return false // nothing is there
	case f.Reverse:
		direction, start = "r", m.Number(f.Since.Offset-1)
	default:
		start = m.Number(f.Since.Offset + 1)
	}
	limit := ""
	if f.Limit > 0 {
		limit = m.Number(uint64(f.Limit))
	}
	c.Arg(direction)
	c.Arg(start)
	c.Arg(limit)
	return true
}

// RemoveHistory implements broker.Broker.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	s, hash, err := b.place(ctx, ch)
	if err != nil {
		return err
	}
	m := slab.New(64 + len(ch))
	return s.client.Explain(s.client.Do(ctx, s.client.B().Del().Key(m.Name(&s.names, b.kinds.history, ch, hash)).Build()).Error())
}

// Positions implements broker.PositionReader. The reads go out as pipelined chunks
// of up to 1,000, all shards at a time.
func (b *Broker) Positions(ctx context.Context, channels []string) []broker.PositionResult {
	results := make([]broker.PositionResult, len(channels))
	shards, err := b.running(ctx)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	parts := make([][]laneItem, len(shards))
	for i, ch := range channels {
		hash := keys.Hash(ch)
		at := keys.Jump(hash, len(shards))
		if results[i].Err = shards[at].names.Check(ch); results[i].Err == nil {
			parts[at] = append(parts[at], laneItem{index: int32(i), hash: hash})
		}
	}
	var group sync.WaitGroup
	for at, items := range parts {
		group.Go(func() {
			err := b.whenSettled(ctx, shards[at], func() error {
				b.shardPositions(ctx, shards[at], items, channels, results)
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

func (b *Broker) shardPositions(ctx context.Context, s *shard, items []laneItem, channels []string, results []broker.PositionResult) {
	var cmds []rueidis.Completed
	m := slab.New(slab.Max)
	failures := explainer{shard: s}
	filter := broker.HistoryFilter{}
	for chunk := range slices.Chunk(items, conn.MaxPipeline) {
		calls := make([]script.Call, len(chunk))
		for i, it := range chunk {
			b.historyCall(&calls[i], s, &m, channels[it.index], it.hash, &filter)
		}
		var answers []rueidis.RedisResult
		answers, cmds = script.RunAll(ctx, s.client, calls, cmds)
		for i, it := range chunk {
			result, err := reply.Position(answers[i])
			results[it.index] = broker.PositionResult{Top: result.Position, Err: failures.explain(err)}
		}
	}
}
