package api

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

// sourceServerAPI marks subscriptions made by this API (channels.md section 10).
const sourceServerAPI = 10

// Subscribe executes a subscribe command.
func (e *Executor) Subscribe(ctx context.Context, r *SubscribeRequest) (*SubscribeResult, error) {
	o, err := e.options(r.Channel)
	if err != nil {
		return nil, err
	}
	data, err := payload(r.Data, r.B64Data)
	if err != nil {
		return nil, err
	}
	info, err := payload(r.Info, r.B64Info)
	if err != nil {
		return nil, err
	}
	var over SubscribeOptionOverride
	if r.Override != nil {
		over = *r.Override
	}
	opts := gyro.SubscribeOptions{
		ExpireAt:      r.ExpireAt,
		ChanInfo:      info,
		Data:          data,
		Presence:      choose(over.Presence, o.Presence),
		EmitJoinLeave: choose(over.JoinLeave, o.JoinLeave),
		PushJoinLeave: choose(over.ForcePushJoinLeave, o.ForcePushJoinLeave),
		Positioned:    choose(over.ForcePositioning, o.ForcePositioning),
		Recoverable:   choose(over.ForceRecovery, o.ForceRecovery),
		// RecoveryMode stays "stream", whatever the namespace says.
		RecoverSince:   (*gyro.StreamPosition)(r.RecoverSince),
		HistoryMetaTTL: o.HistoryMetaTTL,
		BatchMaxDelay:  o.BatchMaxDelay,
		BatchMaxSize:   o.BatchMaxSize,
		Source:         sourceServerAPI,
	}
	err = e.node.Subscribe(ctx, r.User, r.Channel,
		gyro.WithClient(r.Client), gyro.WithSession(r.Session), gyro.WithSubscribeOptions(opts))
	if err != nil {
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
		return nil, err
	}
	if err := e.node.Unsubscribe(ctx, r.User, r.Channel, gyro.WithClient(r.Client), gyro.WithSession(r.Session)); err != nil {
		return nil, e.failed(ctx, MethodUnsubscribe, r.Channel, err)
	}
	return &UnsubscribeResult{}, nil
}

// Disconnect executes a disconnect command.
func (e *Executor) Disconnect(ctx context.Context, r *DisconnectRequest) (*DisconnectResult, error) {
	opts := []gyro.DisconnectOption{gyro.WithClient(r.Client), gyro.WithSession(r.Session)}
	if len(r.Whitelist) > 0 {
		opts = append(opts, gyro.WithWhitelist(r.Whitelist...))
	}
	if d := r.Disconnect; d != nil {
		opts = append(opts, gyro.WithDisconnect(protocol.Disconnect{Code: d.Code, Reason: d.Reason}))
	}
	if err := e.node.Disconnect(ctx, r.User, opts...); err != nil {
		return nil, e.failed(ctx, MethodDisconnect, "", err)
	}
	return &DisconnectResult{}, nil
}

// Refresh executes a refresh command.
func (e *Executor) Refresh(ctx context.Context, r *RefreshRequest) (*RefreshResult, error) {
	opts := []gyro.RefreshOption{gyro.WithClient(r.Client), gyro.WithSession(r.Session)}
	switch {
	case r.Expired:
		opts = append(opts, gyro.WithExpired())
	case len(r.Info) > 0:
		opts = append(opts, gyro.WithExpireAt(r.ExpireAt), gyro.WithInfo(r.Info))
	default:
		opts = append(opts, gyro.WithExpireAt(r.ExpireAt))
	}
	if err := e.node.Refresh(ctx, r.User, opts...); err != nil {
		return nil, e.failed(ctx, MethodRefresh, "", err)
	}
	return &RefreshResult{}, nil
}
