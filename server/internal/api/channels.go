package api

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// surveyTimeout bounds the wait for answers of nodes.
const surveyTimeout = 10 * time.Second

// Presence executes a presence command.
func (e *Executor) Presence(ctx context.Context, r *PresenceRequest) (*PresenceResult, error) {
	if err := e.checkPresence(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodPresence, r.Channel, err)
	}
	p, err := e.node.Presence(ctx, r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodPresence, r.Channel, err)
	}
	res := &PresenceResult{Presence: make(map[string]*ClientInfo, len(p))}
	for client, info := range p {
		res.Presence[client] = (*ClientInfo)(info)
	}
	return res, nil
}

// PresenceStats executes a presence_stats command.
func (e *Executor) PresenceStats(ctx context.Context, r *PresenceStatsRequest) (*PresenceStatsResult, error) {
	if err := e.checkPresence(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodPresenceStats, r.Channel, err)
	}
	s, err := e.node.PresenceStats(ctx, r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodPresenceStats, r.Channel, err)
	}
	return &PresenceStatsResult{NumClients: uint32(s.Clients), NumUsers: uint32(s.Users)}, nil
}

func (e *Executor) checkPresence(ch string) error {
	of, err := e.channel(ch)
	if err == nil && !of.Presence {
		return errPresence
	}
	return err
}

// History executes a history command.
func (e *Executor) History(ctx context.Context, r *HistoryRequest) (*HistoryResult, error) {
	ch, err := e.checkHistory(r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodHistory, r.Channel, err)
	}
	// There is nothing before offset 0. Centrifugo answers with an internal error.
	if r.Since != nil && r.Reverse && r.Since.Offset == 0 {
		return nil, e.failed(ctx, MethodHistory, r.Channel, errSince)
	}
	h, err := e.node.History(ctx, r.Channel, &gyro.HistoryFilter{
		Since: (*gyro.StreamPosition)(r.Since), Limit: int(r.Limit), Reverse: r.Reverse, MetaTTL: ch.HistoryMetaTTL,
	})
	if err != nil {
		return nil, e.failed(ctx, MethodHistory, r.Channel, err)
	}
	res := &HistoryResult{Publications: make([]Publication, len(h.Publications)), Offset: h.Top.Offset, Epoch: h.Top.Epoch}
	for i, p := range h.Publications {
		res.Publications[i] = Publication{Data: p.Data, Info: (*ClientInfo)(p.Info), Offset: p.Offset, Tags: p.Tags}
	}
	return res, nil
}

// HistoryRemove executes a history_remove command.
func (e *Executor) HistoryRemove(ctx context.Context, r *HistoryRemoveRequest) (*HistoryRemoveResult, error) {
	if _, err := e.checkHistory(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodHistoryRemove, r.Channel, err)
	}
	if err := e.node.RemoveHistory(ctx, r.Channel); err != nil {
		return nil, e.failed(ctx, MethodHistoryRemove, r.Channel, err)
	}
	return &HistoryRemoveResult{}, nil
}

func (e *Executor) checkHistory(name string) (channels.Channel, error) {
	ch, err := e.channel(name)
	if err != nil {
		return ch, err
	}
	if o := channels.Publication(ch); !o.Kept() {
		return ch, errHistory
	}
	return ch, nil
}

// Channels executes a channels command. The nodes match the pattern.
func (e *Executor) Channels(ctx context.Context, r *ChannelsRequest) (*ChannelsResult, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	all, err := e.node.Channels(ctx, r.Pattern)
	var incomplete string
	if all != nil || errors.Is(err, protocol.ErrorBadRequest) {
		incomplete, err = partial(err, errPattern)
	}
	if err != nil {
		return nil, e.failed(ctx, MethodChannels, "", err)
	}
	res := &ChannelsResult{Channels: make(map[string]*ChannelInfo), Incomplete: incomplete}
	for ch, n := range all {
		if err := ctx.Err(); err != nil {
			return nil, e.failed(ctx, MethodChannels, "", err)
		}
		if n > 0 && e.mayName(ch) == nil {
			res.Channels[ch] = &ChannelInfo{NumClients: uint32(n)}
		}
	}
	return res, nil
}
