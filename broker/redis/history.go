package redis

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/conn"
	"github.com/gyrohq/gyro/broker/redis/internal/payload"
	"github.com/gyrohq/gyro/channel"
)

// History implements broker.Broker: one round trip. With Config.HistoryUseLists the
// whole LIST is read whatever the filter.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	s, hash, err := b.place(ctx, ch)
	if err != nil {
		return broker.History{}, err
	}
	m := slab{size: 256 + 2*len(ch)}
	var c call
	whole := b.historyCall(&c, s, &m, ch, hash, &filter)
	var h broker.History
	err = b.whenSettled(ctx, s, func() (err error) {
		h, err = b.history(ctx, s, &c, &filter, whole)
		return err
	})
	return h, err
}

// history reads; whole is false if that is the position alone.
func (b *Broker) history(ctx context.Context, s *shard, c *call, filter *broker.HistoryFilter, whole bool) (broker.History, error) {
	if !whole {
		result, err := s.position(ctx, c)
		return broker.History{Top: result.Position}, err
	}
	reply, err := s.run(ctx, c)
	if err != nil {
		return broker.History{}, err
	}
	h, err := b.parseHistory(reply, filter)
	return h, s.client.Explain(err)
}

// historyCall prepares a read. It reports whether publications are read, and not
// the position alone.
func (b *Broker) historyCall(c *call, s *shard, m *slab, ch string, hash uint64, f *broker.HistoryFilter) bool {
	c.script = b.kinds.read
	c.key(m.name(&s.names, b.kinds.history, ch, hash))
	c.key(m.name(&s.names, b.kinds.meta, ch, hash))
	c.arg(m.epoch())
	c.arg(m.milliseconds(positiveOr(f.MetaTTL, b.engine.cfg.HistoryMetaTTL)))
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
		direction, start = "r", m.number(f.Since.Offset-1)
	default:
		start = m.number(f.Since.Offset + 1)
	}
	limit := ""
	if f.Limit > 0 {
		limit = m.number(uint64(f.Limit))
	}
	c.arg(direction)
	c.arg(start)
	c.arg(limit)
	return true
}

// parseHistory reads an array of the position and the entries.
func (b *Broker) parseHistory(reply rueidis.RedisResult, f *broker.HistoryFilter) (h broker.History, err error) {
	parts, err := reply.ToArray()
	if err != nil {
		return h, err
	}
	if len(parts) != 2 {
		return h, errReply
	}
	position, err := parts[0].ToString()
	if err != nil {
		return h, err
	}
	top, err := parseReply(position)
	if err != nil {
		return h, err
	}
	entries, err := parts[1].ToArray()
	if err != nil {
		return h, err
	}
	h.Top = top.Position
	if b.engine.cfg.HistoryUseLists {
		h.Publications, err = parseList(entries, h.Top, f)
	} else {
		h.Publications, err = parseStream(entries)
	}
	return h, err
}

// parseStream reads entries of XRANGE: an ID and the field d with its value.
func parseStream(entries []rueidis.RedisMessage) ([]*channel.Publication, error) {
	store := make([]channel.Publication, len(entries))
	pubs := make([]*channel.Publication, len(entries))
	for i := range entries {
		entry, err := entries[i].ToArray()
		if err != nil || len(entry) != 2 {
			return nil, errReply
		}
		id, err := entry[0].ToString()
		if err != nil {
			return nil, errReply
		}
		id, _, _ = strings.Cut(id, "-")
		if store[i].Offset, err = strconv.ParseUint(id, 10, 64); err != nil {
			return nil, errReply
		}
		fields, err := entry[1].ToArray()
		if err != nil || len(fields) < 2 {
			return nil, errReply
		}
		data, err := fields[1].AsBytes()
		if err != nil {
			return nil, errReply
		}
		if _, err := payload.Publication(data, &store[i]); err != nil {
			return nil, err
		}
		pubs[i] = &store[i]
	}
	return pubs, nil
}

// parseList reads envelopes, the newest first, and selects what the filter wants.
// Entries of an earlier life of the stream, which Centrifugo leaves, are not of it.
func parseList(entries []rueidis.RedisMessage, top channel.StreamPosition, f *broker.HistoryFilter) ([]*channel.Publication, error) {
	var pubs []*channel.Publication
	for i := range entries {
		data, err := entries[i].AsBytes()
		if err != nil {
			return nil, errReply
		}
		m, err := payload.Parse(data)
		if err != nil {
			return nil, err
		}
		if string(m.Epoch) != top.Epoch || !selects(f, m.Offset) {
			continue
		}
		pub := &channel.Publication{Offset: m.Offset}
		if _, err := payload.Publication(m.Data, pub); err != nil {
			return nil, err
		}
		pubs = append(pubs, pub)
	}
	if !f.Reverse {
		slices.Reverse(pubs)
	}
	if f.Limit > 0 && f.Limit < len(pubs) {
		pubs = pubs[:f.Limit]
	}
	return pubs, nil
}

func selects(f *broker.HistoryFilter, offset uint64) bool {
	switch {
	case f.Since == nil:
		return true
	case f.Reverse:
		return offset < f.Since.Offset
	default:
		return offset > f.Since.Offset
	}
}

// RemoveHistory implements broker.Broker.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	s, hash, err := b.place(ctx, ch)
	if err != nil {
		return err
	}
	m := slab{size: 64 + len(ch)}
	return s.client.Explain(s.client.Do(ctx, s.client.B().Del().Key(m.name(&s.names, b.kinds.history, ch, hash)).Build()).Error())
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
		hash := hashOf(ch)
		at := jump(hash, len(shards))
		if results[i].Err = shards[at].names.check(ch); results[i].Err == nil {
			parts[at] = append(parts[at], laneItem{int32(i), hash})
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
	m := slab{size: maxSlab}
	failures := explainer{shard: s}
	filter := broker.HistoryFilter{}
	for chunk := range slices.Chunk(items, conn.MaxPipeline) {
		calls := make([]call, len(chunk))
		for i, it := range chunk {
			b.historyCall(&calls[i], s, &m, channels[it.index], it.hash, &filter)
		}
		var replies []rueidis.RedisResult
		replies, cmds = s.runAll(ctx, calls, cmds)
		for i, it := range chunk {
			text, err := replies[i].ToString()
			var result broker.PublishResult
			if err == nil {
				result, err = parseReply(text)
			}
			results[it.index] = broker.PositionResult{Top: result.Position, Err: failures.explain(err)}
		}
	}
}
