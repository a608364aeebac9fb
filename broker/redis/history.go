package redis

import (
	"context"
	"math"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/channel"
)

// History implements broker.Broker, in one round trip. With Config.HistoryUseLists it reads the whole LIST for every
// filter.
func (b *Broker) History(ctx context.Context, ch string, filter broker.HistoryFilter) (broker.History, error) {
	s, hash, err := b.locate(ctx, ch)
	if err != nil {
		return broker.History{}, err
	}
	var h broker.History
	err = b.readVerified(ctx, s, func() (err error) {
		revision := s.revision()
		text := commands.NewStrings(256 + 2*len(ch))
		var c commands.Call
		sub := b.subscription(s, &text, ch, hash)
		whole := b.historyCall(&c, s, &text, ch, hash, sub, &filter)
		var renewed bool
		if h, renewed, err = b.history(ctx, s, &c, &filter, whole); err == nil {
			b.read(s, ch, sub, h.Top, renewed)
			sub.Renewed(b.metaTTL(&filter), revision)
		}
		return err
	})
	return h, err
}

func (b *Broker) subscription(s *shard, text *commands.Strings, ch string, hash uint64) *losses.Stream {
	return b.receivers[s.index][s.names.Partition(hash)].subscription(text.Name(&s.names, format.ClientChannel, ch, hash))
}

func (b *Broker) read(s *shard, ch string, sub *losses.Stream, top channel.StreamPosition, renewed bool) {
	if s.isVerified() { // the verification compares the position before this read with the server's
		sub.Read(top)
	}
	if renewed {
		b.lostSome(s, ch)
	}
}

func (b *Broker) history(ctx context.Context, s *shard, c *commands.Call, filter *broker.HistoryFilter, whole bool) (h broker.History, renewed bool, err error) {
	if !whole {
		result, err := s.position(ctx, c)
		return broker.History{Top: result.Position}, result.Renewed, err
	}
	answer, err := commands.Run(ctx, s.client, c)
	if err != nil {
		return h, false, err
	}
	h, renewed, err = commands.ReadHistory(answer, filter, b.engine.cfg.HistoryUseLists)
	return h, renewed, s.client.Explain(err)
}

func (b *Broker) metaTTL(f *broker.HistoryFilter) time.Duration {
	return enginekit.PositiveOr(f.MetaTTL, b.engine.cfg.HistoryMetaTTL)
}

// historyCall returns false if the position alone is read.
func (b *Broker) historyCall(c *commands.Call, s *shard, text *commands.Strings, ch string, hash uint64, sub *losses.Stream, f *broker.HistoryFilter) bool {
	s.noteUse()
	known := s.known(ch, hash, sub)
	c.Script = b.kinds.Read
	c.Key(text.Name(&s.names, b.kinds.History, ch, hash), text.Name(&s.names, b.kinds.Meta, ch, hash))
	c.Arg(text.Life(known.Epoch, known.Offset), text.Milliseconds(b.metaTTL(f)))
	direction, start := "f", "-"
	switch {
	case f.Limit == 0:
		return false
	case f.Since == nil && f.Reverse:
		direction, start = "r", "+"
	case f.Since == nil:
	case f.Reverse && f.Since.Offset <= 1, !f.Reverse && f.Since.Offset == math.MaxUint64:
		return false // there are no such publications
	case f.Reverse:
		direction, start = "r", text.Number(f.Since.Offset-1)
	default:
		start = text.Number(f.Since.Offset + 1)
	}
	limit := ""
	if f.Limit > 0 {
		limit = text.Number(uint64(f.Limit))
	}
	c.Arg(direction, start, limit)
	return true
}

func (s *shard) known(ch string, hash uint64, sub *losses.Stream) losses.Known {
	known := s.acked.Known(ch, hash)
	if k := sub.Known(); k.Epoch != known.Epoch && k.Epoch != "" || k.Offset > known.Offset {
		known = k
	}
	return known
}

// RemoveHistory implements broker.Broker.
func (b *Broker) RemoveHistory(ctx context.Context, ch string) error {
	s, hash, err := b.locate(ctx, ch)
	if err != nil {
		return err
	}
	text := commands.NewStrings(64 + len(ch))
	c := commands.Call{Script: b.kinds.Remove}
	c.Key(text.Name(&s.names, b.kinds.History, ch, hash))
	_, err = commands.Run(ctx, s.client, &c)
	return err
}
