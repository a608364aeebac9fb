// Package mapapi executes the commands of the server API on map and shared poll channels.
package mapapi

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/grant"
	"github.com/gyrohq/gyro/server/internal/namespace"
)

// Commands implement api.Keyed. Any goroutine may call their methods.
type Commands struct {
	Node *gyro.Node
	// Channels returns the present configuration of channels.
	Channels func() *namespace.Resolver
}

var _ api.Keyed = (*Commands)(nil)

// change makes a change with the options of the channel's namespace, completed by with.
func (c *Commands) change(ctx context.Context, ch string, pub *channel.Publication, with func(*channel.MapOptions)) (channel.MapResult, error) {
	of, err := c.Channels().Named(ch)
	if err != nil {
		return channel.MapResult{}, err
	}
	o, err := grant.MapChange(of.Options)
	if err == nil && len(pub.Data) > 0 {
		err = of.CheckData(pub.Data)
	}
	if err != nil {
		return channel.MapResult{}, err
	}
	with(&o)
	return c.Node.Maps().Change(ctx, ch, pub, o)
}

// MapPublish implements api.Keyed.
func (c *Commands) MapPublish(ctx context.Context, r *api.MapPublishRequest) (*api.MapPublishResult, error) {
	pub := &channel.Publication{Key: r.Key, Data: r.Data, Tags: r.Tags, Version: r.Version}
	res, err := c.change(ctx, r.Channel, pub, func(o *channel.MapOptions) {
		o.KeyMode, o.IdempotencyKey = channel.KeyMode(r.KeyMode), r.IdempotencyKey
		o.VersionEpoch, o.Delta = r.VersionEpoch, r.Delta && !o.Ephemeral()
	})
	if err != nil {
		return nil, err
	}
	return &api.MapPublishResult{
		Offset: res.Position.Offset, Epoch: res.Position.Epoch,
		Suppressed: res.Suppressed != "", SuppressReason: string(res.Suppressed),
	}, nil
}

// MapRemove implements api.Keyed.
func (c *Commands) MapRemove(ctx context.Context, r *api.MapRemoveRequest) (*api.MapRemoveResult, error) {
	pub := &channel.Publication{Key: r.Key, Removed: true}
	res, err := c.change(ctx, r.Channel, pub, func(o *channel.MapOptions) { o.IdempotencyKey = r.IdempotencyKey })
	if err != nil {
		return nil, err
	}
	return &api.MapRemoveResult{
		Offset: res.Position.Offset, Epoch: res.Position.Epoch,
		Suppressed: res.Suppressed != "", SuppressReason: string(res.Suppressed),
	}, nil
}

// MapReadState implements api.Keyed.
func (c *Commands) MapReadState(ctx context.Context, r *api.MapReadStateRequest) (*api.MapReadStateResult, error) {
	s, err := c.Node.Maps().State(ctx, r.Channel, channel.StateFilter{Key: r.Key, Cursor: r.Cursor, Limit: int(r.Limit)})
	if err != nil {
		return nil, err
	}
	if (r.RevisionOffset > 0 || r.RevisionEpoch != "") && r.RevisionEpoch != s.Top.Epoch {
		return nil, gyro.ErrorUnrecoverablePosition
	}
	return &api.MapReadStateResult{Entries: entries(s.Entries), Offset: s.Top.Offset, Epoch: s.Top.Epoch, Cursor: s.Cursor}, nil
}

// MapReadStream implements api.Keyed.
func (c *Commands) MapReadStream(ctx context.Context, r *api.MapReadStreamRequest) (*api.MapReadStreamResult, error) {
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
	return &api.MapReadStreamResult{Entries: entries(h.Publications), Offset: h.Top.Offset, Epoch: h.Top.Epoch}, nil
}

// lost tells whether the change behind an offset is not in the stream any more.
func lost(h gyro.History, since uint64) bool {
	if len(h.Publications) == 0 {
		return h.Top.Offset > since
	}
	return h.Publications[0].Offset != since+1
}

// MapStats implements api.Keyed.
func (c *Commands) MapStats(ctx context.Context, r *api.MapStatsRequest) (*api.MapStatsResult, error) {
	s, err := c.Node.Maps().State(ctx, r.Channel, channel.StateFilter{})
	if err != nil {
		return nil, err
	}
	return &api.MapStatsResult{NumKeys: int32(min(s.Count, 1<<31-1))}, nil
}

// MapClear implements api.Keyed.
func (c *Commands) MapClear(ctx context.Context, r *api.MapClearRequest) (*api.MapClearResult, error) {
	if err := c.Node.Maps().Clear(ctx, r.Channel); err != nil {
		return nil, err
	}
	return &api.MapClearResult{}, nil
}

// SharedPollPublish implements api.Keyed.
func (c *Commands) SharedPollPublish(ctx context.Context, r *api.SharedPollPublishRequest) (*api.SharedPollPublishResult, error) {
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
	return &api.SharedPollPublishResult{}, nil
}

func entries(pubs []*channel.Publication) []api.MapEntry {
	if len(pubs) == 0 {
		return nil
	}
	list := make([]api.MapEntry, len(pubs))
	for i, p := range pubs {
		list[i] = api.MapEntry{
			Key: p.Key, Data: p.Data, Tags: p.Tags, Offset: p.Offset, Score: p.Score, Removed: p.Removed, Time: p.Time,
		}
	}
	return list
}
