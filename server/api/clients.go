package api

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

// Target selects live connections (server-api.md 5.4). It is not validated: an
// empty User means all anonymous connections. Client and Session, if not empty,
// narrow the set.
type Target struct {
	User    string
	Client  string
	Session string
}

// sourceServerAPI marks subscriptions made by this API (channels.md section 10).
const sourceServerAPI = 10

// SubscribeRequest subscribes connections on the server's side (server-api.md
// 6.3).
type SubscribeRequest struct {
	Channel string
	Target
	// ExpireAt is a Unix time in seconds; 0: never.
	ExpireAt int64
	// Info is shown in presence, joins and leaves; B64Info wins over it.
	Info    []byte
	B64Info string
	// Data is delivered with the subscribe push; B64Data wins over it.
	Data    []byte
	B64Data string
	// RecoverSince asks for recovery from a position.
	RecoverSince *gyro.StreamPosition
	Override     *SubscribeOverride
}

// SubscribeOverride replaces options of the namespace; nil keeps one.
type SubscribeOverride struct {
	Presence           *bool
	JoinLeave          *bool
	ForceRecovery      *bool
	ForcePositioning   *bool
	ForcePushJoinLeave *bool
}

// UnsubscribeRequest ends subscriptions (server-api.md 6.4).
type UnsubscribeRequest struct {
	Channel string
	Target
}

// DisconnectRequest closes connections (server-api.md 6.5).
type DisconnectRequest struct {
	Target
	// Whitelist are the IDs of clients to spare.
	Whitelist []string
	// Disconnect is code and reason, used as they are; nil: 3503 "force disconnect".
	Disconnect *Disconnect
}

// Disconnect is what closed connections are told.
type Disconnect struct {
	Code   uint32
	Reason string
}

// RefreshRequest changes the expiration of connections (server-api.md 6.6).
type RefreshRequest struct {
	Target
	// Expired closes them now; the rest is ignored.
	Expired bool
	// ExpireAt is a Unix time in seconds; 0: never from now on.
	ExpireAt int64
	// Info, if not empty, replaces the connection info.
	Info []byte
}

// EmptyResult is the result of commands that have nothing to tell.
type EmptyResult struct{}

// Subscribe executes a subscribe command.
func (e *Executor) Subscribe(ctx context.Context, r *SubscribeRequest) (*EmptyResult, error) {
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
	var over SubscribeOverride
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
		RecoverSince:   r.RecoverSince,
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
	return &EmptyResult{}, nil
}

func choose(override *bool, option bool) bool {
	if override != nil {
		return *override
	}
	return option
}

// Unsubscribe executes an unsubscribe command. Unlike Ref it refuses an empty
// channel: clients would be told of the end of a subscription that has no name.
func (e *Executor) Unsubscribe(ctx context.Context, r *UnsubscribeRequest) (*EmptyResult, error) {
	if _, err := e.options(r.Channel); err != nil {
		return nil, err
	}
	if err := e.node.Unsubscribe(ctx, r.User, r.Channel, gyro.WithClient(r.Client), gyro.WithSession(r.Session)); err != nil {
		return nil, e.failed(ctx, MethodUnsubscribe, r.Channel, err)
	}
	return &EmptyResult{}, nil
}

// Disconnect executes a disconnect command.
func (e *Executor) Disconnect(ctx context.Context, r *DisconnectRequest) (*EmptyResult, error) {
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
	return &EmptyResult{}, nil
}

// Refresh executes a refresh command.
func (e *Executor) Refresh(ctx context.Context, r *RefreshRequest) (*EmptyResult, error) {
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
	return &EmptyResult{}, nil
}
