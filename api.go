package gyro

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// The operations by Target (Subscribe, Unsubscribe, Disconnect, Refresh) act on the
// connections that it selects on every node of the cluster; that there are none is no error. An empty
// Target is ErrorBadRequest. This node tells the other nodes first and acts when each of them has
// confirmed; then the operation returns without an error. A node that has been silent for
// 7 s need not confirm: it hears of the operation if it comes back within 5 minutes.
//
// With an error, after 8 s at most, this node has done nothing, and no node will do anything
// later; nodes that had confirmed have done their part. The caller may repeat the
// operation.

// operate has every node do a command for the connections that t selects.
func (n *Node) operate(ctx context.Context, t Target, cmd *control.Command) error {
	if err := t.check(); err != nil {
		return err
	}
	return n.member.Operate(ctx, n.cluster, cmd)
}

// Subscribe makes a server-side subscription for the connections that t selects, on every
// node. It returns ErrorBadRequest for a channel that is empty or longer than
// Config.ChannelMaxLength, or options with Map, ErrorExpired for an expiration in the past, and another error for
// options that contradict each other or the channel, and for payloads that are not JSON.
func (n *Node) Subscribe(ctx context.Context, t Target, ch string, o *SubscribeOptions) error {
	if ch == "" || len(ch) > n.cfg.ChannelMaxLength {
		return ErrorBadRequest
	}
	if o != nil {
		if err := n.rules.ServerSubscribe(ch, o); err != nil {
			return err
		}
	}
	m := &control.Subscribe{User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Channel: ch}
	if o != nil {
		m.SetOptions(o)
	}
	if m.ExpireAt > 0 && m.ExpireAt <= time.Now().Unix() {
		return ErrorExpired
	}
	return n.operate(ctx, t, &control.Command{Subscribe: m})
}

// Unsubscribe ends the subscriptions to a channel of the connections that t selects, server-side or not, on
// every node. u is the code, from 2000 to 2999, and the reason that clients are told; nil means 2000 "server
// unsubscribe". With a code from 2500 on, clients subscribe again. It returns
// ErrorBadRequest for an empty channel, and for another code.
func (n *Node) Unsubscribe(ctx context.Context, t Target, ch string, u *Unsubscribe) error {
	if ch == "" {
		return ErrorBadRequest
	}
	u = cmp.Or(u, &protocol.UnsubscribeServer)
	if err := u.Check(); err != nil {
		return refusal.Because(ErrorBadRequest, "", err.Error())
	}
	return n.operate(ctx, t, &control.Command{Unsubscribe: &control.Unsubscribe{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Channel: ch, Code: u.Code, Reason: u.Reason,
	}})
}

// Disconnect closes the connections that t selects, on every node. It returns ErrorBadRequest for a code that is not
// from 3000 to 4999.
func (n *Node) Disconnect(ctx context.Context, t Target, o *DisconnectOptions) error {
	opts := orZero(o)
	d := cmp.Or(opts.Disconnect, &DisconnectForceNoReconnect)
	if err := d.Check(); err != nil {
		return refusal.Because(ErrorBadRequest, "", err.Error())
	}
	return n.operate(ctx, t, &control.Command{Disconnect: &control.Disconnect{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session, Code: d.Code, Reason: d.Reason, Whitelist: opts.Whitelist,
	}})
}

// Refresh changes the expiration of the connections that t selects, on every node. Info that is
// not JSON is an error, unless the node is Binary.
func (n *Node) Refresh(ctx context.Context, t Target, o *RefreshOptions) error {
	opts := orZero(o)
	if err := n.rules.Value("RefreshOptions.Info", opts.Info); err != nil {
		return err
	}
	return n.operate(ctx, t, &control.Command{Refresh: &control.Refresh{
		User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session,
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

// History reads the part of a channel's stream that f selects; nil selects no publications,
// only the top position. If the epoch of f.Since is not that of the stream, History returns
// ErrorUnrecoverablePosition and the top position. f.Reverse with f.Since at offset 0 is
// ErrorBadRequest.
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

// Clients iterates over the authenticated connections of this node: those that t selects, or
// all if t is nil. An empty Target selects none, and leaves an error in the log. The loop body may call any method of the clients; some may have gone
// meanwhile, and those that come during the iteration may be missing. It ends early if ctx
// ends: ctx.Err tells.
//
// The iteration waits for each of the node's loops in turn. A loop copies its list of clients,
// which holds up their traffic for about a millisecond per 30,000 clients; the clients of a user
// are found at once.
func (n *Node) Clients(ctx context.Context, t *Target) iter.Seq[*Client] {
	var of *users.Target
	if t != nil {
		if err := t.check(); err != nil {
			n.cfg.Logger.Error("Node.Clients selects nobody", "error", err)
			return func(func(*Client) bool) {}
		}
		of = &users.Target{User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session}
	}
	return func(yield func(*Client) bool) {
		for c := range n.clients.Select(ctx, of) {
			if !yield((*Client)(c)) {
				return
			}
		}
	}
}

// NumSubscribers is the number of connections of this node that are subscribed to a channel,
// or about to be. It waits for a turn of each of the node's loops, which takes microseconds, or
// milliseconds on a busy node; the error is that of ctx. Channels asks all nodes.
func (n *Node) NumSubscribers(ctx context.Context, ch string) (int, error) {
	return n.clients.Subscribers(ctx, ch)
}

// Panics is the number of panics in handlers, engines and the node itself that the node
// has contained. Each is logged as an error, with the client and the stack. When a handler
// panics, its client gets error 100; after any other panic the client is disconnected with
// 3004.
func (n *Node) Panics() uint64 { return n.clients.Panics() }
