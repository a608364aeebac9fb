package gyro

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/internal/cluster/control"
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
	m := &control.Subscribe{User: user, Channel: ch}
	for _, opt := range opts {
		opt.applySubscribe(m)
	}
	if m.ExpireAt > 0 && m.ExpireAt <= time.Now().Unix() {
		return protocol.ErrorExpired
	}
	return n.member.Operate(ctx, n.cluster, &control.Command{Subscribe: m})
}

// Unsubscribe ends the subscriptions, of either kind, of a user to a channel, on every
// node. An empty channel is protocol.ErrorBadRequest.
func (n *Node) Unsubscribe(ctx context.Context, user, ch string, opts ...UnsubscribeOption) error {
	if ch == "" {
		return protocol.ErrorBadRequest
	}
	u := protocol.UnsubscribeServer
	m := &control.Unsubscribe{User: user, Channel: ch, Code: u.Code, Reason: u.Reason}
	for _, opt := range opts {
		opt.applyUnsubscribe(m)
	}
	return n.member.Operate(ctx, n.cluster, &control.Command{Unsubscribe: m})
}

// Disconnect closes the connections of a user, on every node.
func (n *Node) Disconnect(ctx context.Context, user string, opts ...DisconnectOption) error {
	d := protocol.DisconnectForceNoReconnect
	m := &control.Disconnect{User: user, Code: d.Code, Reason: d.Reason}
	for _, opt := range opts {
		opt.applyDisconnect(m)
	}
	return n.member.Operate(ctx, n.cluster, &control.Command{Disconnect: m})
}

// Refresh changes the expiration of the connections of a user, on every node.
func (n *Node) Refresh(ctx context.Context, user string, opts ...RefreshOption) error {
	m := &control.Refresh{User: user}
	for _, opt := range opts {
		opt.applyRefresh(m)
	}
	return n.member.Operate(ctx, n.cluster, &control.Command{Refresh: m})
}

// Presence returns the clients in a channel by their IDs.
func (n *Node) Presence(ctx context.Context, ch string) (map[string]*ClientInfo, error) {
	return n.engines.Presence.Presence(ctx, ch)
}

// PresenceStats counts the clients in a channel.
func (n *Node) PresenceStats(ctx context.Context, ch string) (PresenceStats, error) {
	return n.engines.Presence.Stats(ctx, ch)
}

// History reads the stream of a channel; without options only its position. A
// position given by WithSince whose epoch is not the stream's is answered with
// protocol.ErrorUnrecoverablePosition, beside which the history holds the top;
// WithReverse with an offset of 0 with protocol.ErrorBadRequest.
func (n *Node) History(ctx context.Context, ch string, opts ...HistoryOption) (History, error) {
	var f HistoryFilter
	for _, opt := range opts {
		opt.applyHistory(&f)
	}
	return n.engines.History(ctx, ch, f)
}

// RemoveHistory drops the publications of a stream; its position stays.
func (n *Node) RemoveHistory(ctx context.Context, ch string) error {
	return n.engines.Broker.RemoveHistory(ctx, ch)
}

// NumClients is the number of authenticated connections of this node.
func (n *Node) NumClients() int {
	clients, _ := n.clients.Totals()
	return clients
}

// Panics is how many panics, of handlers, engines or the node itself, were contained.
// Each is logged as an error, with the client and the stack. If it was not a handler
// that panicked, whose clients get error 100, the client is disconnected with 3004.
func (n *Node) Panics() uint64 { return n.clients.Panics() }
