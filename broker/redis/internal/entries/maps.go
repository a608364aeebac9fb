// Package entries keeps the entries of map channels in Redis. The stream of a map's changes is a stream like
// any other; its entries are in keys of their own (../commands/lua/map.lua). Each call is one round trip.
package entries

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/channel"
)

// Shard of the engine.
type Shard struct {
	Index  int
	Client *servers.Client
	Names  *format.Names
}

// Host is the broker that the maps belong to. It knows of the streams of their changes.
type Host interface {
	// Place returns the shard of a channel, and the hash of its name; Shards all of them. Place fails
	// unless the broker runs.
	Place(ctx context.Context, ch string) (s Shard, hash uint64, err error)
	Shards() []Shard
	// Known tells what is known of a stream that is about to change.
	Known(s Shard, ch string, hash uint64) losses.Known
	// Acknowledged notes that a change is in the stream. sum is that of its payload, or 0.
	Acknowledged(s Shard, ch string, hash uint64, result *commands.Result, sum uint64)
	// Read calls read when the shard's data are known to hold what was acknowledged, and notes the top.
	Read(ctx context.Context, s Shard, ch string, hash uint64, read func(losses.Known) (top channel.StreamPosition, renewed bool, err error)) error
	// Go calls run in a goroutine. The broker ends ctx when it ends, and waits for run.
	Go(run func(ctx context.Context))
}

// Config of Maps. All fields but SkipPubSub are needed.
type Config struct {
	Host Host
	// MetaTTL is how long the epoch of a channel lives that was read and is empty.
	MetaTTL time.Duration
	// Interval of the looks for entries that have expired. If it is negative, other nodes look.
	Interval time.Duration
	// IdempotencyTTL is how long a result is kept if the change does not say.
	IdempotencyTTL time.Duration
	SkipPubSub     bool
	Logger         *slog.Logger
}

// Maps implements broker.Maps.
type Maps struct {
	Config
	looks looks
}

var _ broker.Maps = (*Maps)(nil)

// What a change does, for the script.
const (
	changeSet    = "set"
	changeRemove = "remove"
	changeExpire = "expire"
)

// forEver is a time to live.
const forEver = time.Duration(math.MaxInt64)

// Change implements broker.Maps.
func (m *Maps) Change(ctx context.Context, ch string, pub *channel.Publication, opts channel.MapOptions) (channel.MapResult, error) {
	if err := broker.CheckChange(pub, &opts); err != nil {
		return channel.MapResult{}, err
	}
	s, hash, err := m.Host.Place(ctx, ch)
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
	text := commands.NewArena(512 + 8*len(ch) + len(pub.Data))
	calls := make([]commands.Call, 1, 2)
	encoded := m.changeCall(&calls[0], s, &text, changing{ch, hash, what, pub}, &opts)
	if !pub.Removed && opts.KeyTTL > 0 {
		if m.looks.add(m, s, ch, opts.KeyTTL) {
			calls = append(calls, commands.Call{})
			registerCall(&calls[1], s, &text, ch, hash, opts.KeyTTL)
		}
	}
	answers, _ := commands.RunAll(ctx, s.Client, calls, nil)
	result, current, err := commands.ReadChange(answers[0])
	if err != nil {
		return channel.MapResult{}, s.Client.Explain(err)
	}
	return m.changed(s, changing{ch, hash, what, pub}, result, current, encoded, opts.Ephemeral())
}

// changed takes note of an answer.
func (m *Maps) changed(s Shard, c changing, result commands.Result, current []byte, encoded string, ephemeral bool) (out channel.MapResult, err error) {
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
		m.Host.Acknowledged(s, c.ch, c.hash, &result, sum)
	}
	return out, err
}

// changing is a change of an entry.
type changing struct {
	ch   string
	hash uint64
	what string
	pub  *channel.Publication
}

// changeCall prepares c, which must be zero, for a change. It returns the encoded publication.
func (m *Maps) changeCall(c *commands.Call, s Shard, text *commands.Arena, change changing, o *channel.MapOptions) string {
	pub := change.pub
	if pub.Time == 0 {
		pub.Time = time.Now().UnixMilli()
	}
	encoded, tags := text.Publication(pub, false), ""
	if len(pub.Tags) > 0 {
		tags = text.Publication(&channel.Publication{Tags: pub.Tags}, false)
	}
	name := ""
	if !m.SkipPubSub {
		name = text.Name(s.Names, format.ClientChannel, change.ch, change.hash)
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
	known := m.Host.Known(s, change.ch, change.hash)
	c.Arg(encoded, text.Number(uint64(o.StreamSize)), text.Milliseconds(o.StreamTTL), name)
	c.Arg(text.Milliseconds(orForEver(o.MetaTTL)), text.Life(known.Epoch, known.Offset))
	resultTTL := ""
	if o.IdempotencyKey != "" {
		c.Key(text.Result(s.Names, change.ch, change.hash, o.IdempotencyKey))
		resultTTL = text.Milliseconds(positiveOr(o.IdempotencyTTL, m.IdempotencyTTL))
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

// addKeys adds the keys of a map, in the order of the scripts.
func addKeys(c *commands.Call, s Shard, text *commands.Arena, ch string, hash uint64) {
	for _, kind := range []format.KeyKind{format.Stream, format.StreamMeta, format.MapEntries, format.MapOrder, format.MapDues} {
		c.Key(text.Name(s.Names, kind, ch, hash))
	}
}

func scriptsOf(s Shard) *commands.MapScripts {
	if s.Names.Partitions > 0 {
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

func orForEver(ttl time.Duration) time.Duration { return positiveOr(ttl, forEver) }

func positiveOr(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// State implements broker.Maps.
func (m *Maps) State(ctx context.Context, ch string, filter channel.StateFilter) (out channel.State, err error) {
	s, hash, err := m.Host.Place(ctx, ch)
	if err != nil {
		return out, err
	}
	m.looks.begin(m)
	err = m.Host.Read(ctx, s, ch, hash, func(known losses.Known) (channel.StreamPosition, bool, error) {
		text := commands.NewArena(512 + 6*len(ch))
		c := commands.Call{Script: commands.State}
		addKeys(&c, s, &text, ch, hash)
		c.Arg(text.Life(known.Epoch, known.Offset), text.Milliseconds(m.MetaTTL))
		c.Arg(filter.Key, filter.Cursor, strconv.Itoa(filter.Limit))
		answer, err := commands.Run(ctx, s.Client, &c)
		if err != nil {
			return channel.StreamPosition{}, false, err
		}
		state, renewed, err := commands.ReadState(answer)
		out = state
		return state.Top, renewed, s.Client.Explain(err)
	})
	return out, err
}

// Clear implements broker.Maps.
func (m *Maps) Clear(ctx context.Context, ch string) error {
	s, hash, err := m.Host.Place(ctx, ch)
	if err != nil {
		return err
	}
	text := commands.NewArena(256 + 6*len(ch))
	c := commands.Call{Script: scriptsOf(s).Clear}
	addKeys(&c, s, &text, ch, hash)
	name := ""
	if !m.SkipPubSub {
		name = text.Name(s.Names, format.ClientChannel, ch, hash)
	}
	c.Arg(name, format.MarkClear)
	_, err = commands.Run(ctx, s.Client, &c)
	return err
}
