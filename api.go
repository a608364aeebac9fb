package gyro

import (
	"context"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/protocol"
)

// The operations by user concern the connections of a user on every node of the
// cluster; the empty user is the anonymous one, with all of its connections. The other
// nodes are told first. No error means that each has confirmed, and all is done here; one
// that has been silent for 7 s is told if it is back within 5 minutes. An error, after 8 s
// at most, means that nothing happens here, nor later anywhere; nodes that confirmed have
// done it. Repeating is fine. That there is no such connection is no error.

// Subscribe makes a server-side subscription for the connections of a user, on every
// node. A channel that is empty or longer than Config.ChannelMaxLength is
// protocol.ErrorBadRequest, an expiration that has passed protocol.ErrorExpired.
func (n *Node) Subscribe(ctx context.Context, user, ch string, opts ...SubscribeOption) error {
	if ch == "" || len(ch) > n.cfg.ChannelMaxLength {
		return protocol.ErrorBadRequest
	}
	var cfg subscribeConfig
	for _, opt := range opts {
		opt.applySubscribe(&cfg)
	}
	if at := cfg.opts.ExpireAt; at > 0 && at <= time.Now().Unix() {
		return protocol.ErrorExpired
	}
	cmd := control.NewSubscribe(user, ch, &cfg.opts)
	cmd.Client, cmd.Session = cfg.Client, cfg.Session
	return n.operate(ctx, user, &cfg.Target, control.Command{Subscribe: cmd}, n.subscribing(ch, &cfg.opts))
}

// Unsubscribe ends the subscriptions, of either kind, of a user to a channel, on every
// node. An empty channel is protocol.ErrorBadRequest.
func (n *Node) Unsubscribe(ctx context.Context, user, ch string, opts ...UnsubscribeOption) error {
	if ch == "" {
		return protocol.ErrorBadRequest
	}
	cfg := unsubscribeConfig{code: protocol.UnsubscribeServer}
	for _, opt := range opts {
		opt.applyUnsubscribe(&cfg)
	}
	cmd := control.Command{Unsubscribe: &control.Unsubscribe{
		User: user, Channel: ch, Client: cfg.Client, Session: cfg.Session, Code: cfg.code.Code, Reason: cfg.code.Reason,
	}}
	return n.operate(ctx, user, &cfg.Target, cmd, unsubscribing(ch, cfg.code))
}

// Disconnect closes the connections of a user, on every node.
func (n *Node) Disconnect(ctx context.Context, user string, opts ...DisconnectOption) error {
	cfg := disconnectConfig{code: protocol.DisconnectForceNoReconnect}
	for _, opt := range opts {
		opt.applyDisconnect(&cfg)
	}
	cmd := control.Command{Disconnect: &control.Disconnect{
		User: user, Client: cfg.Client, Session: cfg.Session, Whitelist: cfg.Whitelist, Code: cfg.code.Code, Reason: cfg.code.Reason,
	}}
	return n.operate(ctx, user, &cfg.Target, cmd, disconnecting(cfg.code))
}

// Refresh changes the expiration of the connections of a user, on every node.
func (n *Node) Refresh(ctx context.Context, user string, opts ...RefreshOption) error {
	var cfg refreshConfig
	for _, opt := range opts {
		opt.applyRefresh(&cfg)
	}
	cmd := control.Command{Refresh: &control.Refresh{
		User: user, Client: cfg.Client, Session: cfg.Session, Expired: cfg.expired, ExpireAt: cfg.expireAt, Info: cfg.info,
	}}
	return n.operate(ctx, user, &cfg.Target, cmd, refreshing(cfg.expired, cfg.expireAt, cfg.info))
}

// errNoSessions refuses WithSession. The ID is a secret, so it is not named.
var errNoSessions = fmt.Errorf("gyro: connections have no sessions yet, select them by client ID: %w", protocol.ErrorNotAvailable)

// operate tells the other nodes of an operation, then calls f, on their loops, with the
// connections of the user here.
func (n *Node) operate(ctx context.Context, user string, t *users.Target, cmd control.Command, f func(*Client)) error {
	if t.Session != "" {
		return errNoSessions
	}
	if err := n.cluster.Tell(ctx, &cmd); err != nil {
		return err
	}
	return n.onLoops(ctx, func(s *shard) { s.each(user, t, f) })
}

// onLoops calls f on every loop and waits until all are done. A node that does
// not run has no clients, and nothing to call f for.
func (n *Node) onLoops(ctx context.Context, f func(*shard)) error {
	if !n.isRunning() {
		return nil
	}
	done := make(chan struct{}, len(n.shards))
	for _, s := range n.shards {
		if !s.loop.Post(loop.Func(func() {
			defer func() { done <- struct{}{} }() // also after a panic
			f(s)
		})) {
			done <- struct{}{}
		}
	}
	for range n.shards {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Presence returns the clients in a channel by their IDs.
func (n *Node) Presence(ctx context.Context, ch string) (map[string]*ClientInfo, error) {
	return n.presence.Presence(ctx, ch)
}

// PresenceStats counts the clients in a channel.
func (n *Node) PresenceStats(ctx context.Context, ch string) (PresenceStats, error) {
	return n.presence.Stats(ctx, ch)
}

// History reads the stream of a channel; without options only its position. A
// position given by WithSince whose epoch is not the stream's is answered with
// protocol.ErrorUnrecoverablePosition, beside which the history holds the top;
// WithReverse with an offset of 0 with protocol.ErrorBadRequest.
func (n *Node) History(ctx context.Context, ch string, opts ...HistoryOption) (History, error) {
	var f broker.HistoryFilter
	for _, opt := range opts {
		opt.applyHistory(&f)
	}
	return n.history(ctx, ch, f)
}

func (n *Node) history(ctx context.Context, ch string, f broker.HistoryFilter) (History, error) {
	if f.Reverse && f.Since != nil && f.Since.Offset == 0 {
		return History{}, protocol.ErrorBadRequest
	}
	h, err := n.engines.Streams.History(ctx, ch, f)
	if err != nil {
		return History{}, err
	}
	if f.Since != nil && f.Since.Epoch != "" && f.Since.Epoch != h.Top.Epoch {
		return History{Top: h.Top}, protocol.ErrorUnrecoverablePosition
	}
	return h, nil
}

// RemoveHistory drops the publications of a stream; its position stays.
func (n *Node) RemoveHistory(ctx context.Context, ch string) error {
	return n.broker.RemoveHistory(ctx, ch)
}

// NumClients is the number of authenticated connections of this node.
func (n *Node) NumClients() int {
	clients, _ := n.users.Totals()
	return clients
}
