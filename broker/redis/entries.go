package redis

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/channel"
)

// mapEntries implements broker.Maps, with one round trip per call. The stream of a map is a stream like any other; its
// entries are in keys of their own (internal/commands/lua/map.lua).
type mapEntries struct {
	broker *Broker
	looks  looks
}

var _ broker.Maps = (*mapEntries)(nil)

func (m *mapEntries) interval() time.Duration { return m.broker.engine.cfg.MapExpiryInterval }

// Changes, as the script calls them.
const (
	changeSet    = "set"
	changeRemove = "remove"
	changeExpire = "expire"
)

const forEver = time.Duration(math.MaxInt64)

func (m *mapEntries) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	if err := broker.CheckChange(pub, &opts); err != nil {
		return channel.MapResult{}, err
	}
	s, hash, err := m.broker.locate(ctx, ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	what := changeSet
	switch {
	case pub.Removed:
		what = changeRemove
	case opts.KeyMode != channel.KeyAny:
		what = string(opts.KeyMode)
	}
	text := commands.NewStrings(512 + 8*len(ch) + len(pub.Data))
	calls := make([]commands.Call, 1, 2)
	encoded := m.changeCall(&calls[0], s, &text, changing{ch, hash, what, pub}, &opts)
	if !pub.Removed && opts.KeyTTL > 0 {
		if m.looks.add(m, s, ch, opts.KeyTTL) {
			calls = append(calls, commands.Call{})
			registerCall(&calls[1], s, &text, ch, hash, opts.KeyTTL)
		}
	}
	answers, _ := commands.RunAll(ctx, s.client, calls, nil)
	result, current, err := commands.ReadChange(answers[0])
	if err != nil {
		return channel.MapResult{}, s.client.Explain(err)
	}
	return m.changed(s, changing{ch, hash, what, pub}, result, current, encoded, opts.Ephemeral())
}

func (m *mapEntries) changed(s *shard, c changing, result commands.Result, current []byte, encoded string, ephemeral bool) (out channel.MapResult, err error) {
	out.Suppressed = result.Suppressed
	if !ephemeral {
		out.Position = result.Position
	}
	if len(current) > 0 {
		out.Current = &channel.Publication{}
		err = format.ReadEntry(current, out.Current)
	}
	if out.Suppressed == "" && !ephemeral {
		sum := losses.TextSum(encoded)
		if c.pub.Removed {
			sum = 0 // the script may have added tags
		}
		m.broker.acknowledged(s, c.ch, c.hash, &result, sum)
	}
	return out, err
}

type changing struct {
	ch   string
	hash uint64
	what string
	pub  *channel.Publication
}

// changeCall needs a zero c.
func (m *mapEntries) changeCall(c *commands.Call, s *shard, text *commands.Strings, change changing, o *channel.MapOptions) string {
	pub := change.pub
	enginekit.Stamp(pub, time.Now())
	encoded, tags := text.Publication(pub, false), ""
	if len(pub.Tags) > 0 {
		tags = text.Publication(&channel.Publication{Tags: pub.Tags}, false)
	}
	name := ""
	if !m.broker.engine.cfg.SkipPubSub {
		name = text.Name(&s.names, format.ClientChannel, change.ch, change.hash)
	}
	scripts := scriptsOf(s)
	c.Script = scripts.Change
	settings := ""
	if o.Ephemeral() {
		c.Script = scripts.ChangeEphemeral
	} else {
		settings = strings.Join([]string{text.Number(uint64(o.StreamSize)), text.Milliseconds(o.StreamTTL), text.Milliseconds(orForEver(o.MetaTTL))}, ":")
	}
	addKeys(c, s, text, change.ch, change.hash)
	s.noteUse()
	known := s.acked.Known(change.ch, change.hash)
	c.Arg(encoded, text.Number(uint64(o.StreamSize)), text.Milliseconds(o.StreamTTL), name)
	c.Arg(text.Milliseconds(orForEver(o.MetaTTL)), text.Life(known.Epoch, known.Offset))
	resultTTL := ""
	if o.IdempotencyKey != "" {
		c.Key(text.Result(&s.names, change.ch, change.hash, o.IdempotencyKey))
		resultTTL = text.Milliseconds(enginekit.PositiveOr(o.IdempotencyTTL, m.broker.engine.cfg.IdempotencyTTL))
	}
	c.Arg(resultTTL, flag(o.Delta), "0", o.VersionEpoch, string(known.Earlier))
	offset, epoch := "", ""
	if x := o.Expected; x != nil {
		offset, epoch = text.Number(x.Offset), x.Epoch
	}
	ttl := ""
	if o.KeyTTL > 0 {
		ttl = text.Milliseconds(o.KeyTTL)
	}
	c.Arg(pub.Key, change.what, text.Number(pub.Version), offset, epoch, ttl, flag(o.RefreshTTL), tags, settings)
	if o.MaxEntries > 0 {
		c.Arg(text.Number(uint64(o.MaxEntries)))
	}
	return encoded
}

func addKeys(c *commands.Call, s *shard, text *commands.Strings, ch string, hash uint64) {
	for _, kind := range []format.KeyKind{format.Stream, format.StreamMeta, format.MapEntries, format.MapOrder, format.MapDues} {
		c.Key(text.Name(&s.names, kind, ch, hash))
	}
}

func scriptsOf(s *shard) *commands.MapScripts {
	if s.names.Partitions > 0 {
		return &commands.ShardedMaps
	}
	return &commands.PlainMaps
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

func orForEver(ttl time.Duration) time.Duration { return enginekit.PositiveOr(ttl, forEver) }

func (m *mapEntries) State(ctx context.Context, ch string, filter channel.StateFilter) (out channel.State, err error) {
	b := m.broker
	s, hash, err := b.locate(ctx, ch)
	if err != nil {
		return out, err
	}
	m.looks.begin(m)
	err = b.readVerified(ctx, s, func() error {
		s.noteUse()
		text := commands.NewStrings(512 + 7*len(ch))
		sub := b.subscription(s, &text, ch, hash)
		known := s.known(ch, hash, sub)
		c := commands.Call{Script: commands.State}
		addKeys(&c, s, &text, ch, hash)
		c.Arg(text.Life(known.Epoch, known.Offset), text.Milliseconds(b.engine.cfg.HistoryMetaTTL))
		c.Arg(filter.Key, filter.Cursor, strconv.Itoa(filter.Limit))
		answer, err := commands.Run(ctx, s.client, &c)
		if err != nil {
			return err
		}
		state, renewed, err := commands.ReadState(answer)
		if err != nil {
			return s.client.Explain(err)
		}
		b.read(s, ch, sub, state.Top, renewed)
		out = state
		return nil
	})
	return out, err
}

func (m *mapEntries) Clear(ctx context.Context, ch string) error {
	s, hash, err := m.broker.locate(ctx, ch)
	if err != nil {
		return err
	}
	text := commands.NewStrings(256 + 6*len(ch))
	c := commands.Call{Script: scriptsOf(s).Clear}
	addKeys(&c, s, &text, ch, hash)
	name := ""
	if !m.broker.engine.cfg.SkipPubSub {
		name = text.Name(&s.names, format.ClientChannel, ch, hash)
	}
	c.Arg(name, format.PrefixClear)
	_, err = commands.Run(ctx, s.client, &c)
	return err
}
