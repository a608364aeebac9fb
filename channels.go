package gyro

import (
	"context"
	"iter"

	"github.com/gyrohq/gyro/internal/client"
)

// Presence returns the clients in a channel by their IDs.
func (n *Node) Presence(ctx context.Context, ch string) (map[string]*ClientInfo, error) {
	return n.engines.Presence.Presence(ctx, ch)
}

// PresenceStats counts the clients in a channel.
func (n *Node) PresenceStats(ctx context.Context, ch string) (PresenceStats, error) {
	return n.engines.Presence.Stats(ctx, ch)
}

// History reads the part of a stream that f selects; nil selects the top position alone. If the stream has another epoch
// than f.Since, the error is ErrorUnrecoverablePosition, with the top. f.Reverse with f.Since at offset 0 is
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

// Clients iterates over the authenticated connections of this node that t selects, all if t is nil. An empty Target
// selects none and leaves an error in the log. The loop body may call any method of the clients. Clients that come or
// go meanwhile may be missed. It ends early with ctx: ctx.Err tells.
//
// It asks one of the node's loops after the other. A loop copies its list, which takes about a millisecond per 30,000
// clients; the clients of a user are found at once.
func (n *Node) Clients(ctx context.Context, t *Target) iter.Seq[*Client] {
	var of *client.Target
	if t != nil {
		if err := t.check(); err != nil {
			n.cfg.Logger.Error("Node.Clients selects nobody", "error", err)
			return func(func(*Client) bool) {}
		}
		of = &client.Target{User: t.User, AnyUser: t.anyUser(), Client: t.Client, Session: t.Session}
	}
	return func(yield func(*Client) bool) {
		for c := range n.clients.Select(ctx, of) {
			if !yield((*Client)(c)) {
				return
			}
		}
	}
}
