package api

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

// PresenceRequest asks who is in a channel (server-api.md 6.7).
type PresenceRequest struct{ Channel string }

// PresenceResult has the connections by client ID.
type PresenceResult struct {
	Presence map[string]*gyro.ClientInfo
}

// PresenceStatsRequest asks how many are in a channel (server-api.md 6.8).
type PresenceStatsRequest struct{ Channel string }

// PresenceStatsResult has the counts; all anonymous clients are one user.
type PresenceStatsResult struct {
	NumClients uint32
	NumUsers   uint32
}

// HistoryRequest reads a stream (server-api.md 6.9).
type HistoryRequest struct {
	Channel string
	// Limit: 0 for the position only, < 0 for no limit.
	Limit int32
	// Since excludes everything up to it (Reverse: everything from it).
	Since   *gyro.StreamPosition
	Reverse bool
}

// HistoryResult is what the stream holds and the position of its top.
type HistoryResult struct {
	Publications []*gyro.Publication
	Offset       uint64
	Epoch        string
}

// HistoryRemoveRequest drops a stream's publications (server-api.md 6.10).
type HistoryRemoveRequest struct{ Channel string }

// ChannelsRequest lists channels with subscribers (server-api.md 6.11).
type ChannelsRequest struct {
	// Pattern is a glob that the whole name must match; empty: all.
	Pattern string
}

// ChannelsResult has the number of subscribers over all nodes by channel.
type ChannelsResult struct {
	Channels map[string]uint32
}

// surveyTimeout is how long the nodes have to tell of their channels.
const surveyTimeout = 10 * time.Second

// Presence executes a presence command.
func (e *Executor) Presence(ctx context.Context, r *PresenceRequest) (*PresenceResult, error) {
	if err := e.checkPresence(r.Channel); err != nil {
		return nil, err
	}
	p, err := e.node.Presence(ctx, r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodPresence, r.Channel, err)
	}
	return &PresenceResult{Presence: p}, nil
}

// PresenceStats executes a presence_stats command.
func (e *Executor) PresenceStats(ctx context.Context, r *PresenceStatsRequest) (*PresenceStatsResult, error) {
	if err := e.checkPresence(r.Channel); err != nil {
		return nil, err
	}
	s, err := e.node.PresenceStats(ctx, r.Channel)
	if err != nil {
		return nil, e.failed(ctx, MethodPresenceStats, r.Channel, err)
	}
	return &PresenceStatsResult{NumClients: uint32(s.Clients), NumUsers: uint32(s.Users)}, nil
}

func (e *Executor) checkPresence(ch string) error {
	o, err := e.options(ch)
	if err == nil && !o.Presence {
		return ErrNotAvailable
	}
	return err
}

// History executes a history command.
func (e *Executor) History(ctx context.Context, r *HistoryRequest) (*HistoryResult, error) {
	o, err := e.checkHistory(r.Channel)
	if err != nil {
		return nil, err
	}
	opts := []gyro.HistoryOption{gyro.WithLimit(int(r.Limit))}
	if o.HistoryMetaTTL > 0 {
		opts = append(opts, gyro.WithMetaTTL(o.HistoryMetaTTL))
	}
	if r.Since != nil {
		// Nothing is before offset 0. Ref answers with an internal error.
		if r.Reverse && r.Since.Offset == 0 {
			return nil, ErrBadRequest
		}
		opts = append(opts, gyro.WithSince(*r.Since))
	}
	if r.Reverse {
		opts = append(opts, gyro.WithReverse())
	}
	h, err := e.node.History(ctx, r.Channel, opts...)
	if err != nil {
		return nil, e.failed(ctx, MethodHistory, r.Channel, err)
	}
	return &HistoryResult{Publications: h.Publications, Offset: h.Top.Offset, Epoch: h.Top.Epoch}, nil
}

// HistoryRemove executes a history_remove command.
func (e *Executor) HistoryRemove(ctx context.Context, r *HistoryRemoveRequest) (*EmptyResult, error) {
	if _, err := e.checkHistory(r.Channel); err != nil {
		return nil, err
	}
	if err := e.node.RemoveHistory(ctx, r.Channel); err != nil {
		return nil, e.failed(ctx, MethodHistoryRemove, r.Channel, err)
	}
	return &EmptyResult{}, nil
}

func (e *Executor) checkHistory(ch string) (ChannelOptions, error) {
	o, err := e.options(ch)
	if err == nil && !o.history() {
		err = ErrNotAvailable
	}
	return o, err
}

// Channels executes a channels command. All nodes match the pattern themselves.
func (e *Executor) Channels(ctx context.Context, r *ChannelsRequest) (*ChannelsResult, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	all, err := e.node.Channels(ctx, r.Pattern)
	switch {
	case errors.Is(err, protocol.ErrorBadRequest):
		// The caller's mistake, but this is the code that callers know.
		return nil, ErrInternal
	case err != nil:
		return nil, e.failed(ctx, MethodChannels, "", err)
	}
	res := &ChannelsResult{Channels: make(map[string]uint32)}
	for ch, n := range all {
		if err := ctx.Err(); err != nil {
			return nil, e.failed(ctx, MethodChannels, "", err)
		}
		if n > 0 {
			res.Channels[ch] = uint32(n)
		}
	}
	return res, nil
}
