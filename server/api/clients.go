package api

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
)

// sourceServerAPI marks subscriptions made by this API.
const sourceServerAPI = 10

// whom selects connections of a user, which the other IDs narrow. Without a user they are anonymous ones.
func whom(user, client, session string) gyro.Target {
	return gyro.Target{User: user, Anonymous: user == "", Client: client, Session: session}
}

// Subscribe executes a subscribe command.
func (e *Executor) Subscribe(ctx context.Context, r *SubscribeRequest) (*SubscribeResult, error) {
	o, err := e.options(r.Channel)
	if err == nil && !o.stream() {
		err = errServerSide
	}
	if err != nil {
		return nil, e.failed(ctx, MethodSubscribe, r.Channel, err)
	}
	data, err := payload(r.Data, r.B64Data)
	if err != nil {
		return nil, e.failed(ctx, MethodSubscribe, r.Channel, err)
	}
	info, err := payload(r.Info, r.B64Info)
	if err != nil {
		return nil, e.failed(ctx, MethodSubscribe, r.Channel, err)
	}
	var over SubscribeOptionOverride
	if r.Override != nil {
		over = *r.Override
	}
	opts := gyro.SubscribeOptions{
		ExpireAt:      channel.FromUnix(r.ExpireAt),
		ChanInfo:      info,
		Data:          data,
		Presence:      choose(over.Presence, o.Presence),
		EmitJoinLeave: choose(over.JoinLeave, o.JoinLeave),
		PushJoinLeave: choose(over.ForcePushJoinLeave, o.ForcePushJoinLeave),
		Positioned:    choose(over.ForcePositioning, o.ForcePositioning),
		Recoverable:   choose(over.ForceRecovery, o.ForceRecovery),
		// RecoveryMode stays "stream", whatever the namespace says.
		RecoverSince:     (*gyro.StreamPosition)(r.RecoverSince),
		HistoryMetaTTL:   o.HistoryMetaTTL,
		BatchMaxDelay:    o.BatchMaxDelay,
		BatchMaxSize:     o.BatchMaxSize,
		BatchFlushLatest: o.BatchFlushLatest,
		Source:           sourceServerAPI,
	}
	if !opts.Recoverable {
		opts.RecoverSince = nil
	}
	if err := e.node.Subscribe(ctx, whom(r.User, r.Client, r.Session), r.Channel, &opts); err != nil {
		return nil, e.failed(ctx, MethodSubscribe, r.Channel, err)
	}
	return &SubscribeResult{}, nil
}

func choose(override *BoolValue, option bool) bool {
	if override != nil {
		return override.Value
	}
	return option
}

// Unsubscribe executes an unsubscribe command. Unlike Ref it refuses an empty
// channel: clients would be told of the end of a subscription that has no name.
func (e *Executor) Unsubscribe(ctx context.Context, r *UnsubscribeRequest) (*UnsubscribeResult, error) {
	if _, err := e.options(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodUnsubscribe, r.Channel, err)
	}
	if err := e.node.Unsubscribe(ctx, whom(r.User, r.Client, r.Session), r.Channel, nil); err != nil {
		return nil, e.failed(ctx, MethodUnsubscribe, r.Channel, err)
	}
	return &UnsubscribeResult{}, nil
}

// Disconnect executes a disconnect command.
func (e *Executor) Disconnect(ctx context.Context, r *DisconnectRequest) (*DisconnectResult, error) {
	o := gyro.DisconnectOptions{Whitelist: r.Whitelist}
	if d := r.Disconnect; d != nil {
		o.Disconnect = &gyro.Disconnect{Code: d.Code, Reason: d.Reason}
	}
	if err := e.node.Disconnect(ctx, whom(r.User, r.Client, r.Session), &o); err != nil {
		return nil, e.failed(ctx, MethodDisconnect, "", err)
	}
	return &DisconnectResult{}, nil
}

// Refresh executes a refresh command.
func (e *Executor) Refresh(ctx context.Context, r *RefreshRequest) (*RefreshResult, error) {
	o := gyro.RefreshOptions{Expired: r.Expired, ExpireAt: channel.FromUnix(r.ExpireAt)}
	if len(r.Info) > 0 {
		o.Info = r.Info
	}
	if err := e.node.Refresh(ctx, whom(r.User, r.Client, r.Session), &o); err != nil {
		return nil, e.failed(ctx, MethodRefresh, "", err)
	}
	return &RefreshResult{}, nil
}
