package api

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// target selects connections of a user; without one, anonymous connections.
func target(user, client, session string) gyro.Target {
	return gyro.Target{User: user, Anonymous: user == "", Client: client, Session: session}
}

// Subscribe executes a subscribe command.
func (e *Executor) Subscribe(ctx context.Context, r *SubscribeRequest) (*SubscribeResult, error) {
	ch, err := e.channel(r.Channel)
	if err == nil && ch.Type != channels.Stream {
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
	opts := channels.Subscription(ch, channels.SourceServerAPI)
	if len(ch.FullStates) == 0 {
		// A backend that subscribes a client wants the stream, whatever the namespace forces on clients.
		opts.RecoveryMode, opts.AutoRecover = channel.RecoverStream, false
	}
	channels.Override(&opts, auth.OverrideOf(r.Override))
	opts.ExpireAt, opts.ChanInfo, opts.Data = channel.FromUnix(r.ExpireAt), info, data
	opts.RecoverSince = (*gyro.StreamPosition)(r.RecoverSince)
	if !opts.Recoverable {
		opts.RecoverSince = nil
	}
	if err := e.node.Subscribe(ctx, target(r.User, r.Client, r.Session), r.Channel, &opts); err != nil {
		return nil, e.failed(ctx, MethodSubscribe, r.Channel, err)
	}
	return &SubscribeResult{}, nil
}

// Unsubscribe executes an unsubscribe command. Unlike Centrifugo it refuses an empty channel: clients would be told that
// a subscription without a name has ended.
func (e *Executor) Unsubscribe(ctx context.Context, r *UnsubscribeRequest) (*UnsubscribeResult, error) {
	if _, err := e.channel(r.Channel); err != nil {
		return nil, e.failed(ctx, MethodUnsubscribe, r.Channel, err)
	}
	if err := e.node.Unsubscribe(ctx, target(r.User, r.Client, r.Session), r.Channel, nil); err != nil {
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
	if err := e.node.Disconnect(ctx, target(r.User, r.Client, r.Session), &o); err != nil {
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
	if err := e.node.Refresh(ctx, target(r.User, r.Client, r.Session), &o); err != nil {
		return nil, e.failed(ctx, MethodRefresh, "", err)
	}
	return &RefreshResult{}, nil
}
