package gyro

import (
	"cmp"
	"context"
	"time"

	"github.com/gyrohq/gyro/channel"
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
// ErrorBadRequest, an expiration that has passed ErrorExpired.
func (n *Node) Subscribe(ctx context.Context, t Target, ch string, o *SubscribeOptions) error {
	if ch == "" || len(ch) > n.cfg.ChannelMaxLength {
		return ErrorBadRequest
	}
	m := &control.Subscribe{User: t.User, Client: t.Client, Session: t.Session, Channel: ch}
	if o != nil {
		m.SetOptions(o)
	}
	if m.ExpireAt > 0 && m.ExpireAt <= time.Now().Unix() {
		return ErrorExpired
	}
	return n.member.Operate(ctx, n.cluster, &control.Command{Subscribe: m})
}

// Unsubscribe ends the subscriptions, of either kind, of a user to a channel, on every
// node. u is code and reason of the push, nil for 2000 "server unsubscribe"; from code 2500
// clients subscribe again. An empty channel is ErrorBadRequest.
func (n *Node) Unsubscribe(ctx context.Context, t Target, ch string, u *Unsubscribe) error {
	if ch == "" {
		return ErrorBadRequest
	}
	u = cmp.Or(u, &protocol.UnsubscribeServer)
	return n.member.Operate(ctx, n.cluster, &control.Command{Unsubscribe: &control.Unsubscribe{
		User: t.User, Client: t.Client, Session: t.Session, Channel: ch, Code: u.Code, Reason: u.Reason,
	}})
}

// Disconnect closes the connections of a user, on every node.
func (n *Node) Disconnect(ctx context.Context, t Target, o *DisconnectOptions) error {
	opts := orZero(o)
	d := cmp.Or(opts.Disconnect, &DisconnectForceNoReconnect)
	return n.member.Operate(ctx, n.cluster, &control.Command{Disconnect: &control.Disconnect{
		User: t.User, Client: t.Client, Session: t.Session, Code: d.Code, Reason: d.Reason, Whitelist: opts.Whitelist,
	}})
}

// Refresh changes the expiration of the connections of a user, on every node.
func (n *Node) Refresh(ctx context.Context, t Target, o *RefreshOptions) error {
	opts := orZero(o)
	return n.member.Operate(ctx, n.cluster, &control.Command{Refresh: &control.Refresh{
		User: t.User, Client: t.Client, Session: t.Session,
		Expired: opts.Expired, ExpireAt: channel.ToUnix(opts.ExpireAt), Info: opts.Info,
	}})
}

// Presence returns the clients in a channel by their IDs.
func (n *Node) Presence(ctx context.Context, ch string) (map[string]*ClientInfo, error) {
	return n.engines.Presence.Presence(ctx, ch)
}

// PresenceStats counts the clients in a channel.
func (n *Node) PresenceStats(ctx context.Context, ch string) (PresenceStats, error) {
	return n.engines.Presence.Stats(ctx, ch)
}

// History reads what f selects of the stream of a channel; with nil its position alone. A
// position f.Since whose epoch is not the stream's is answered with
// ErrorUnrecoverablePosition, beside which the history holds the top; f.Reverse with an
// offset of 0 with ErrorBadRequest.
func (n *Node) History(ctx context.Context, ch string, f *HistoryFilter) (History, error) {
	return n.engines.History(ctx, ch, orZero(f))
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
