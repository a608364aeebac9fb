// Package operations has the operations of a node for other nodes and for operators: Member carries out commands on this
// node's clients and answers surveys, Inspector finds connections and recorded events of all nodes.
package operations

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/protocol"
)

// Member implements cluster.Handler for the clients of a node. The exported fields are constant.
type Member struct {
	UID, Name, Version string
	Started            time.Time
	Clients            *client.Registry
	Routes             *route.Table
	// Survey answers the application's surveys.
	Survey    func(ctx context.Context, from, op string, data []byte) (cluster.Answer, error)
	Inspector *Inspector
	Process   func() inspect.Process

	// subscriptions is the number that Info got last.
	subscriptions atomic.Int64
}

// Describe implements cluster.Handler. It takes 1 s at most, so that a loop that hangs does not make the node look dead.
func (m *Member) Describe(ctx context.Context) inspect.Node {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, _ := m.Info(ctx)
	return info
}

// Info describes the node. With an error, which is from ctx, NumSubs is an earlier one.
func (m *Member) Info(ctx context.Context) (inspect.Node, error) {
	subs, err := m.Clients.Subscriptions(ctx)
	if err == nil {
		m.subscriptions.Store(int64(subs))
	}
	info := inspect.Node{
		UID: m.UID, Name: m.Name, Version: m.Version, NumSubs: int(m.subscriptions.Load()),
		NumChannels: m.Routes.Size(), Uptime: time.Since(m.Started).Truncate(time.Second), Process: m.Process(),
	}
	info.NumClients, info.NumUsers = m.Clients.Totals()
	return info, err
}

// Answer implements cluster.Handler.
func (m *Member) Answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	return m.Survey(ctx, from, op, data)
}

// Inquire implements cluster.Handler.
func (m *Member) Inquire(ctx context.Context, op string, data []byte) cluster.Answer {
	if op == cluster.OpTap {
		return m.Clients.Session.Taps.Answer(data)
	}
	return m.Inspector.Inquire(ctx, op, data)
}

// Channels implements cluster.Handler.
func (m *Member) Channels(ctx context.Context, match func(string) bool) (map[string]int, error) {
	return m.Clients.Channels(ctx, match)
}

// Dispatch implements cluster.Handler.
func (m *Member) Dispatch(session string, data []byte) <-chan struct{} {
	return m.Clients.Dispatch(session, data)
}

// Apply implements cluster.Handler.
func (m *Member) Apply(cmd *control.Command) {
	t, do, err := operation(cmd)
	if err != nil {
		m.Clients.Log.Warn("control message is not understood", "node", cmd.UID, "error", err)
		return
	}
	m.Clients.PostEach(&t, do)
}

// Operate makes every node carry out a command, the others first. Without an error all have done it.
func (m *Member) Operate(ctx context.Context, c *cluster.Cluster, cmd *control.Command) error {
	t, do, err := operation(cmd)
	if err == nil {
		err = c.Tell(ctx, cmd)
	}
	if err != nil {
		return err
	}
	return m.Clients.Each(ctx, &t, do)
}

var _ cluster.Handler = (*Member)(nil)

// operation returns the clients of a command, and the action on each. Codes that no client can get, which another node's
// software may let pass, become the default codes of such a command.
func operation(cmd *control.Command) (t client.Target, do func(*client.Client), err error) {
	switch {
	case cmd.Subscribe != nil:
		m := cmd.Subscribe
		opts, err := m.Options()
		return client.Target{User: m.User, AnyUser: m.AnyUser, Client: m.Client, Session: m.Session},
			func(c *client.Client) { c.Subscribe(m.Channel, opts) }, err
	case cmd.Unsubscribe != nil:
		m := cmd.Unsubscribe
		u := protocol.Unsubscribe{Code: m.Code, Reason: m.Reason}
		if u.Check() != nil {
			u = protocol.UnsubscribeServer
		}
		return client.Target{User: m.User, AnyUser: m.AnyUser, Client: m.Client, Session: m.Session},
			func(c *client.Client) { c.Session().ServerUnsubscribe(m.Channel, u) }, nil
	case cmd.Disconnect != nil:
		m := cmd.Disconnect
		d := protocol.Disconnect{Code: m.Code, Reason: m.Reason}
		if d.Check() != nil {
			d = protocol.DisconnectForceNoReconnect
		}
		return client.Target{User: m.User, AnyUser: m.AnyUser, Client: m.Client, Session: m.Session, Whitelist: m.Whitelist},
			func(c *client.Client) { c.Session().CloseAfterDelivery(d) }, nil
	case cmd.Refresh != nil:
		m := cmd.Refresh
		return client.Target{User: m.User, AnyUser: m.AnyUser, Client: m.Client, Session: m.Session},
			func(c *client.Client) { c.Session().ServerRefresh(m.Expired, m.ExpireAt, m.Info) }, nil
	}
	return t, nil, errors.New("no operation")
}
