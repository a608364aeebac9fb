package redis

import (
	"context"

	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/entries"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/channel"
)

// mapHost is the broker as its maps see it.
type mapHost struct{ *Broker }

func newMaps(b *Broker) *entries.Maps {
	cfg := &b.engine.cfg
	return &entries.Maps{Config: entries.Config{
		Host: mapHost{b}, MetaTTL: cfg.HistoryMetaTTL, Interval: cfg.MapExpiryInterval,
		IdempotencyTTL: cfg.IdempotencyTTL, SkipPubSub: cfg.SkipPubSub, Logger: cfg.Logger,
	}}
}

func (s *shard) ofMaps() entries.Shard {
	return entries.Shard{Index: s.index, Client: s.client, Names: &s.names}
}

// Place implements entries.Host.
func (h mapHost) Place(ctx context.Context, ch string) (entries.Shard, uint64, error) {
	s, hash, err := h.place(ctx, ch)
	if err != nil {
		return entries.Shard{}, 0, err
	}
	return s.ofMaps(), hash, nil
}

// Shards implements entries.Host.
func (h mapHost) Shards() []entries.Shard {
	list := make([]entries.Shard, len(h.shards))
	for i, s := range h.shards {
		list[i] = s.ofMaps()
	}
	return list
}

// Known implements entries.Host.
func (h mapHost) Known(of entries.Shard, ch string, hash uint64) losses.Known {
	s := h.shards[of.Index]
	s.keepsHistory()
	return s.acked.Known(ch, hash)
}

// Acknowledged implements entries.Host.
func (h mapHost) Acknowledged(of entries.Shard, ch string, hash uint64, result *commands.Result, sum uint64) {
	h.acknowledged(h.shards[of.Index], ch, hash, result, sum)
}

// Read implements entries.Host.
func (h mapHost) Read(ctx context.Context, of entries.Shard, ch string, hash uint64, read func(losses.Known) (channel.StreamPosition, bool, error)) error {
	s := h.shards[of.Index]
	return h.whenSettled(ctx, s, func() error {
		s.keepsHistory()
		text := commands.NewArena(s.names.Size(ch))
		sub := h.subscription(s, &text, ch, hash)
		top, renewed, err := read(s.known(ch, hash, sub))
		if err == nil {
			h.Broker.read(s, ch, sub, top, renewed)
		}
		return err
	})
}

// Go implements entries.Host.
func (h mapHost) Go(run func(context.Context)) { h.background.Go(func() { run(h.lifetime) }) }
