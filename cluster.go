package gyro

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/protocol"
)

// Codes of SurveyReply. The application may have others.
const (
	SurveyOK       uint32 = cluster.CodeOK
	SurveyInternal uint32 = cluster.CodeInternal
	SurveyInvalid  uint32 = cluster.CodeInvalid
	// SurveyUnknownOp is the answer to an unknown question, or without a Survey handler.
	SurveyUnknownOp uint32 = cluster.CodeUnknownOp
)

var (
	// ErrUnknownNode tells that a survey was for a node that is not in the cluster.
	ErrUnknownNode = cluster.ErrUnknownNode
	// ErrNoAnswer names nodes that have not answered a survey, or confirmed an operation.
	ErrNoAnswer = cluster.ErrNoAnswer
)

// members is the node as its cluster sees it: a cluster.Handler.
type members Node

// Describe implements cluster.Handler. A loop that hangs must not make the node look
// dead as well.
func (m *members) Describe(ctx context.Context) cluster.Info {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, _ := (*Node)(m).describe(ctx) // with what is known
	return cluster.Info(info)
}

// describe returns what the node is at this moment. With an error the number of
// subscriptions is that of a moment before.
func (n *Node) describe(ctx context.Context) (NodeInfo, error) {
	var subs atomic.Int64
	err := n.onLoops(ctx, func(s *shard) { subs.Add(int64(s.loop.Hub().Subscribers())) })
	if err == nil {
		n.subs.Store(subs.Load())
	}
	info := NodeInfo{
		UID: n.uid, Name: n.cfg.Name, Version: n.cfg.Version, NumSubs: int(n.subs.Load()),
		NumChannels: n.routes.Size(), Uptime: int64(time.Since(n.started) / time.Second),
	}
	info.NumClients, info.NumUsers = n.users.Totals()
	return info, err
}

// Info describes the nodes of the cluster, this one first. What it tells of others is
// what they told last: they do so every 3 s. A node that was killed is listed for 7 to
// 16 s more, one that was shut down is not.
func (n *Node) Info(ctx context.Context) ([]NodeInfo, error) {
	self, err := n.describe(ctx)
	if err != nil {
		return nil, err
	}
	infos := []NodeInfo{self}
	for _, o := range n.cluster.Nodes() {
		infos = append(infos, NodeInfo(o))
	}
	return infos, nil
}

// Survey asks every node of the cluster, this one included, or just the one with the
// UID node if that is not empty, and returns the replies of their Survey handlers by
// UID when each node that is known has replied or left. If ctx (without a deadline:
// 10 s) ends earlier, or a node has been silent for 7 to 45 s, the replies so far come
// with ErrNoAnswer. An unknown UID is ErrUnknownNode.
//
// The name op must not be "channels" or begin with "centrifuge_". data and the data of
// a reply have at most 16 MiB, or what the controller carries if that is less; a reply
// that is too long arrives as SurveyInternal. A node has at most 64 surveys under way,
// more wait, and answers at most 128 of others.
func (n *Node) Survey(ctx context.Context, op string, data []byte, node string) (map[string]SurveyReply, error) {
	if cluster.Reserved(op) {
		return nil, fmt.Errorf("gyro: survey: the name %q is reserved", op)
	}
	answers, err := n.cluster.Survey(ctx, op, data, node)
	replies := make(map[string]SurveyReply, len(answers))
	for uid, a := range answers {
		replies[uid] = SurveyReply(a)
	}
	return replies, err
}

// Answer implements cluster.Handler.
func (m *members) Answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	h := m.cfg.Handlers.Survey
	if h == nil {
		return cluster.Answer{Code: cluster.CodeUnknownOp}, nil
	}
	reply, err := h(ctx, SurveyEvent{Op: op, Data: data, Node: from})
	return cluster.Answer(reply), err
}

// Channels returns the channels with subscribers in the cluster, and the number of
// these, as far as their names match a glob pattern (server-api.md 6.11; at most 1,024
// bytes); the empty one matches all. A pattern that is none is a
// protocol.ErrorBadRequest. It is a Survey: the error names the nodes that are missing,
// and there is no partial result. The names and numbers of a node have at most 16 MiB,
// or what the controller carries.
func (n *Node) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	return n.cluster.Channels(ctx, pattern)
}

// Channels implements cluster.Handler.
func (m *members) Channels(ctx context.Context, match func(string) bool) (map[string]int, error) {
	n := (*Node)(m)
	parts := make([]map[string]int, len(n.shards))
	err := n.onLoops(ctx, func(s *shard) {
		m := make(map[string]int)
		s.loop.Hub().Channels(func(ch string, subscribers int) { m[ch] = subscribers })
		parts[s.index] = m
	})
	if err != nil {
		return nil, err
	}
	channels := make(map[string]int)
	for _, m := range parts {
		maps.DeleteFunc(m, func(ch string, _ int) bool { return !match(ch) })
		for ch, k := range m {
			channels[ch] += k
		}
	}
	return channels, nil
}

// Apply implements cluster.Handler.
func (m *members) Apply(cmd *control.Command) {
	n := (*Node)(m)
	switch {
	case cmd.Subscribe != nil:
		c := cmd.Subscribe
		opts, err := c.Options()
		if err != nil {
			n.log.Warn("control message is not understood", "node", cmd.UID, "channel", c.Channel, "error", err)
			return
		}
		n.postToUser(c.User, users.Target{Client: c.Client, Session: c.Session}, n.subscribing(c.Channel, opts))
	case cmd.Unsubscribe != nil:
		c := cmd.Unsubscribe
		n.postToUser(c.User, users.Target{Client: c.Client, Session: c.Session},
			unsubscribing(c.Channel, protocol.Unsubscribe{Code: c.Code, Reason: c.Reason}))
	case cmd.Disconnect != nil:
		c := cmd.Disconnect
		n.postToUser(c.User, users.Target{Client: c.Client, Session: c.Session, Whitelist: c.Whitelist},
			disconnecting(protocol.Disconnect{Code: c.Code, Reason: c.Reason}))
	case cmd.Refresh != nil:
		c := cmd.Refresh
		n.postToUser(c.User, users.Target{Client: c.Client, Session: c.Session}, refreshing(c.Expired, c.ExpireAt, c.Info))
	}
}

// postToUser calls f, on their loops, with the connections of a user, later.
func (n *Node) postToUser(user string, t users.Target, f func(*Client)) {
	for _, s := range n.shards {
		s.loop.Post(loop.Func(func() { s.each(user, &t, f) }))
	}
}

// subscribing and the next ones are what is done with each connection, whichever node was asked to.
func (n *Node) subscribing(ch string, opts *SubscribeOptions) func(*Client) {
	return func(c *Client) {
		if err := c.session.Subscribe(ch, opts); err != nil {
			n.log.Warn("server-side subscription refused", "channel", ch, "client", c.ID(), "error", err)
		}
	}
}

func unsubscribing(ch string, u protocol.Unsubscribe) func(*Client) {
	return func(c *Client) { c.session.Unsubscribe(ch, u) }
}

func disconnecting(d protocol.Disconnect) func(*Client) {
	return func(c *Client) { c.session.Dismiss(d) }
}

func refreshing(expired bool, expireAt int64, info []byte) func(*Client) {
	return func(c *Client) { c.session.Refresh(expired, expireAt, info) }
}
