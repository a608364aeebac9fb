package redis

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/channel"
)

// Publish implements broker.Broker, in one round trip. With history or an idempotency key it is a script, and atomic;
// otherwise a PUBLISH.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	s, hash, err := b.locate(ctx, ch)
	if err != nil {
		return broker.PublishResult{}, err
	}
	enginekit.Stamp(pub, time.Now())
	text := commands.NewStrings(256 + 4*len(ch) + len(pub.Data))
	var c commands.Call
	encoded := text.Publication(pub, unkeptDelta(&opts))
	b.publishCall(&c, s, &text, publishing{ch, hash, encoded, pub.Version}, &opts)
	if c.Script == nil {
		if b.engine.cfg.SkipPubSub {
			return broker.PublishResult{}, nil
		}
		_, err := commands.Run(ctx, s.client, &c)
		return broker.PublishResult{}, err
	}
	result, err := s.position(ctx, &c)
	if err == nil && opts.Kept() {
		b.acknowledged(s, ch, hash, &result, losses.TextSum(encoded))
	}
	return result.PublishResult, err
}

func (b *Broker) acknowledged(s *shard, ch string, hash uint64, result *commands.Result, sum uint64) {
	s.acked.Note(ch, hash, &result.PublishResult, sum, s.client.Generation(), s.isVerified())
	if result.Renewed {
		b.lostSome(s, ch)
	}
}

// lostSome logs the first channel with missing publications only, as others will follow.
func (b *Broker) lostSome(s *shard, ch string) {
	if s.isVerified() {
		b.engine.cfg.Logger.Warn("redis lost publications that were delivered or acknowledged; the stream has a new epoch",
			"part", s.client.Name(), "channel", ch)
	}
	b.noteRollback(s)
}

func (s *shard) position(ctx context.Context, c *commands.Call) (commands.Result, error) {
	answer, err := commands.Run(ctx, s.client, c)
	if err != nil {
		return commands.Result{}, err
	}
	result, err := commands.ReadPosition(answer)
	return result, s.client.Explain(err)
}

// unkeptDelta: the payload must allow deltas. With history, the envelope does.
func unkeptDelta(opts *broker.PublishOptions) bool { return opts.Delta && !opts.Kept() }

type publishing struct {
	ch      string
	hash    uint64
	payload string
	version uint64
}

// publishCall needs a zero c.
func (b *Broker) publishCall(c *commands.Call, s *shard, text *commands.Strings, p publishing, opts *broker.PublishOptions) {
	name := text.Name(&s.names, format.ClientChannel, p.ch, p.hash)
	verb := commands.Publish
	if s.names.Partitions > 0 {
		verb = commands.ShardPublish
	}
	switch {
	case opts.Kept():
		if b.engine.cfg.SkipPubSub {
			name = ""
		}
		b.historyPublishCall(c, s, text, p, opts, name)
	case opts.IdempotencyKey != "":
		if b.engine.cfg.SkipPubSub {
			name = ""
		}
		c.Script = commands.Once
		c.Key(text.Result(&s.names, p.ch, p.hash, opts.IdempotencyKey))
		c.Arg(p.payload, name, text.Milliseconds(enginekit.PositiveOr(opts.IdempotencyTTL, b.engine.cfg.IdempotencyTTL)), verb)
	default:
		c.Message(verb, name, p.payload)
	}
}

func (b *Broker) historyPublishCall(c *commands.Call, s *shard, text *commands.Strings, p publishing, opts *broker.PublishOptions, name string) {
	s.noteUse()
	known := s.acked.Known(p.ch, p.hash)
	c.Script = b.kinds.PublishBy(s.names.Partitions > 0)
	c.Key(text.Name(&s.names, b.kinds.History, p.ch, p.hash), text.Name(&s.names, b.kinds.Meta, p.ch, p.hash))
	c.Arg(p.payload, text.Number(uint64(opts.HistorySize)), text.Milliseconds(opts.HistoryTTL), name)
	c.Arg(text.Milliseconds(enginekit.PositiveOr(opts.HistoryMetaTTL, b.engine.cfg.HistoryMetaTTL)), text.Life(known.Epoch, known.Offset))
	if opts.IdempotencyKey == "" && !opts.Delta && p.version == 0 && known.Earlier == "" {
		return
	}
	resultTTL, delta := "", "0"
	if opts.IdempotencyKey != "" {
		c.Key(text.Result(&s.names, p.ch, p.hash, opts.IdempotencyKey))
		resultTTL = text.Milliseconds(enginekit.PositiveOr(opts.IdempotencyTTL, b.engine.cfg.IdempotencyTTL))
	}
	if opts.Delta {
		delta = "1"
	}
	c.Arg(resultTTL, delta, text.Number(p.version), opts.VersionEpoch, string(known.Earlier))
}

// PublishJoin implements broker.Broker.
func (b *Broker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.publishInfo(ctx, ch, format.PrefixJoin, info)
}

// PublishLeave implements broker.Broker.
func (b *Broker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.publishInfo(ctx, ch, format.PrefixLeave, info)
}

func (b *Broker) publishInfo(ctx context.Context, ch, prefix string, info *channel.ClientInfo) error {
	s, hash, err := b.locate(ctx, ch)
	if err != nil || b.engine.cfg.SkipPubSub {
		return err
	}
	text := commands.NewStrings(256 + len(ch))
	var c commands.Call
	b.publishCall(&c, s, &text, publishing{ch: ch, hash: hash, payload: text.ClientInfo(prefix, info)}, &broker.PublishOptions{})
	_, err = commands.Run(ctx, s.client, &c)
	return err
}
