package api

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// KeyedCommands implement Keyed.
type KeyedCommands struct {
	Node     *gyro.Node
	Channels func() *channels.Resolver
}

var _ Keyed = (*KeyedCommands)(nil)

// change makes a change with the options of the namespace, completed by with.
func (c *KeyedCommands) change(ctx context.Context, ch string, pub *channel.Publication, with func(*channel.MapOptions)) (channel.MapResult, error) {
	of, err := c.Channels().Named(ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	o, err := channels.MapChange(of.Options)
	if err == nil && len(pub.Data) > 0 {
		err = of.CheckData(pub.Data)
	}
	if err != nil {
		return channel.MapResult{}, err
	}
	with(&o)
	return c.Node.Maps().Change(ctx, ch, pub, o)
}

// MapPublish implements Keyed.
func (c *KeyedCommands) MapPublish(ctx context.Context, r *MapPublishRequest) (*MapPublishResult, error) {
	pub := &channel.Publication{Key: r.Key, Data: r.Data, Tags: r.Tags, Version: r.Version}
	res, err := c.change(ctx, r.Channel, pub, func(o *channel.MapOptions) {
		o.KeyMode, o.IdempotencyKey = channel.KeyMode(r.KeyMode), r.IdempotencyKey
		o.VersionEpoch, o.Delta = r.VersionEpoch, r.Delta && !o.Ephemeral()
	})
	if err != nil {
		return nil, err
	}
	return &MapPublishResult{
		Offset: res.Position.Offset, Epoch: res.Position.Epoch,
		Suppressed: res.Suppressed != "", SuppressReason: string(res.Suppressed),
	}, nil
}

// MapRemove implements Keyed.
func (c *KeyedCommands) MapRemove(ctx context.Context, r *MapRemoveRequest) (*MapRemoveResult, error) {
	pub := &channel.Publication{Key: r.Key, Removed: true}
	res, err := c.change(ctx, r.Channel, pub, func(o *channel.MapOptions) { o.IdempotencyKey = r.IdempotencyKey })
	if err != nil {
		return nil, err
	}
	return &MapRemoveResult{
		Offset: res.Position.Offset, Epoch: res.Position.Epoch,
		Suppressed: res.Suppressed != "", SuppressReason: string(res.Suppressed),
	}, nil
}

// MapReadState implements Keyed.
func (c *KeyedCommands) MapReadState(ctx context.Context, r *MapReadStateRequest) (*MapReadStateResult, error) {
	s, err := c.Node.Maps().State(ctx, r.Channel, channel.StateFilter{Key: r.Key, Cursor: r.Cursor, Limit: int(r.Limit)})
	if err != nil {
		return nil, err
	}
	if (r.RevisionOffset > 0 || r.RevisionEpoch != "") && r.RevisionEpoch != s.Top.Epoch {
		return nil, gyro.ErrorUnrecoverablePosition
	}
	return &MapReadStateResult{Entries: entries(s.Entries), Offset: s.Top.Offset, Epoch: s.Top.Epoch, Cursor: s.Cursor}, nil
}

// MapReadStream implements Keyed.
func (c *KeyedCommands) MapReadStream(ctx context.Context, r *MapReadStreamRequest) (*MapReadStreamResult, error) {
	f := broker.HistoryFilter{Limit: int(r.Limit), Reverse: r.Reverse}
	if r.SinceOffset > 0 || r.SinceEpoch != "" {
		f.Since = &channel.StreamPosition{Offset: r.SinceOffset, Epoch: r.SinceEpoch}
	}
	h, err := c.Node.History(ctx, r.Channel, &f)
	if err != nil {
		return nil, err
	}
	if !r.Reverse && r.SinceOffset > 0 && r.Limit != 0 && lost(h, r.SinceOffset) {
		return nil, gyro.ErrorUnrecoverablePosition
	}
	return &MapReadStreamResult{Entries: entries(h.Publications), Offset: h.Top.Offset, Epoch: h.Top.Epoch}, nil
}

// lost tells whether the stream no longer has the change after an offset.
func lost(h gyro.History, since uint64) bool {
	if len(h.Publications) == 0 {
		return h.Top.Offset > since
	}
	return h.Publications[0].Offset != since+1
}

// MapStats implements Keyed.
func (c *KeyedCommands) MapStats(ctx context.Context, r *MapStatsRequest) (*MapStatsResult, error) {
	s, err := c.Node.Maps().State(ctx, r.Channel, channel.StateFilter{})
	if err != nil {
		return nil, err
	}
	return &MapStatsResult{NumKeys: int32(min(s.Count, 1<<31-1))}, nil
}

// MapClear implements Keyed.
func (c *KeyedCommands) MapClear(ctx context.Context, r *MapClearRequest) (*MapClearResult, error) {
	if err := c.Node.Maps().Clear(ctx, r.Channel); err != nil {
		return nil, err
	}
	return &MapClearResult{}, nil
}

// SharedPollPublish implements Keyed.
func (c *KeyedCommands) SharedPollPublish(ctx context.Context, r *SharedPollPublishRequest) (*SharedPollPublishResult, error) {
	of, err := c.Channels().Named(r.Channel)
	if err == nil {
		err = of.CheckData(r.Data)
	}
	if err != nil {
		return nil, err
	}
	if err := c.Node.Polls().Publish(ctx, r.Channel, r.Epoch, channel.KeyValue{Key: r.Key, Data: r.Data, Version: r.Version}); err != nil {
		return nil, err
	}
	return &SharedPollPublishResult{}, nil
}

func entries(pubs []*channel.Publication) []MapEntry {
	if len(pubs) == 0 {
		return nil
	}
	list := make([]MapEntry, len(pubs))
	for i, p := range pubs {
		list[i] = MapEntry{
			Key: p.Key, Data: p.Data, Tags: p.Tags, Offset: p.Offset, Score: p.Score, Removed: p.Removed, Time: p.Time,
		}
	}
	return list
}
