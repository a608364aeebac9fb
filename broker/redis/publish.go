package redis

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/payload"
	"github.com/gyrohq/gyro/channel"
)

const (
	commandPublish  = "publish"
	commandSPublish = "spublish"

	defaultIdempotencyTTL = 300 * time.Second
)

// Publish implements broker.Broker: one round trip, atomic by a script unless it is
// a bare PUBLISH.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	s, hash, err := b.place(ctx, ch)
	if err != nil {
		return broker.PublishResult{}, err
	}
	stamp(pub, time.Now())
	m := slab{size: 256 + 4*len(ch) + len(pub.Data)}
	var c call
	b.publishCall(&c, s, &m, publishing{ch, hash, m.publication(pub, unkeptDelta(&opts)), pub.Version}, &opts)
	if c.script == nil {
		if b.engine.cfg.SkipPubSub {
			return broker.PublishResult{}, nil
		}
		_, err := s.run(ctx, &c)
		return broker.PublishResult{}, err
	}
	return s.position(ctx, &c)
}

// position does a call whose reply is a position.
func (s *shard) position(ctx context.Context, c *call) (broker.PublishResult, error) {
	reply, err := s.run(ctx, c)
	if err != nil {
		return broker.PublishResult{}, err
	}
	text, err := reply.ToString()
	if err != nil {
		return broker.PublishResult{}, s.client.Explain(err)
	}
	result, err := parseReply(text)
	return result, s.client.Explain(err)
}

func stamp(pub *channel.Publication, now time.Time) {
	if pub.Time == 0 {
		pub.Time = now.UnixMilli()
	}
}

func kept(opts *broker.PublishOptions) bool { return opts.HistorySize > 0 && opts.HistoryTTL > 0 }

// unkeptDelta tells whether a publication itself says that deltas may be made;
// with history, its envelope does.
func unkeptDelta(opts *broker.PublishOptions) bool { return opts.Delta && !kept(opts) }

// publishing is what publishCall wants to know of a publication.
type publishing struct {
	ch      string
	hash    uint64
	payload string
	version uint64
}

// publishCall prepares c, which has to be zero, to publish.
func (b *Broker) publishCall(c *call, s *shard, m *slab, p publishing, opts *broker.PublishOptions) {
	name := m.name(&s.names, kindClient, p.ch, p.hash)
	verb := commandPublish
	if s.names.partitions > 0 {
		verb = commandSPublish
	}
	switch {
	case kept(opts):
		if b.engine.cfg.SkipPubSub {
			name = ""
		}
		b.keepCall(c, s, m, p, opts, name, verb)
	case opts.IdempotencyKey != "":
		if b.engine.cfg.SkipPubSub {
			name = ""
		}
		c.script = publishOnce
		c.key(m.result(&s.names, p.ch, p.hash, opts.IdempotencyKey))
		c.arg(p.payload)
		c.arg(name)
		c.arg(m.milliseconds(positiveOr(opts.IdempotencyTTL, defaultIdempotencyTTL)))
		c.arg(verb)
	default:
		c.keys[0] = name
		c.arg(verb)
		c.arg(p.payload)
	}
}

// keepCall is publishCall with history.
func (b *Broker) keepCall(c *call, s *shard, m *slab, p publishing, opts *broker.PublishOptions, name, verb string) {
	c.script = b.kinds.publish
	c.key(m.name(&s.names, b.kinds.history, p.ch, p.hash))
	c.key(m.name(&s.names, b.kinds.meta, p.ch, p.hash))
	c.arg(p.payload)
	c.arg(m.number(uint64(opts.HistorySize)))
	c.arg(m.milliseconds(opts.HistoryTTL))
	c.arg(name)
	c.arg(m.milliseconds(max(positiveOr(opts.HistoryMetaTTL, b.engine.cfg.HistoryMetaTTL), 0)))
	c.arg(m.epoch())
	c.arg(verb)
	if opts.IdempotencyKey == "" && !opts.Delta && p.version == 0 {
		return
	}
	resultTTL, delta := "", "0"
	if opts.IdempotencyKey != "" {
		c.key(m.result(&s.names, p.ch, p.hash, opts.IdempotencyKey))
		resultTTL = m.milliseconds(positiveOr(opts.IdempotencyTTL, defaultIdempotencyTTL))
	}
	if opts.Delta {
		delta = "1"
	}
	c.arg(resultTTL)
	c.arg(delta)
	c.arg(m.number(p.version))
	c.arg(opts.VersionEpoch)
}

// PublishJoin implements broker.Broker.
func (b *Broker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.tell(ctx, ch, payload.MarkJoin, info)
}

// PublishLeave implements broker.Broker.
func (b *Broker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.tell(ctx, ch, payload.MarkLeave, info)
}

func (b *Broker) tell(ctx context.Context, ch, mark string, info *channel.ClientInfo) error {
	s, hash, err := b.place(ctx, ch)
	if err != nil || b.engine.cfg.SkipPubSub {
		return err
	}
	m := slab{size: 256 + len(ch)}
	var c call
	b.publishCall(&c, s, &m, publishing{ch: ch, hash: hash, payload: m.info(mark, info)}, &broker.PublishOptions{})
	_, err = s.run(ctx, &c)
	return err
}

func positiveOr(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
