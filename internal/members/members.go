// Package members does with the clients of a node what is to be done on every node of
// the cluster, and answers what the others ask.
package members

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/cluster"
	"github.com/gyrohq/gyro/internal/cluster/control"
	"github.com/gyrohq/gyro/internal/route"
	"github.com/gyrohq/gyro/internal/users"
	"github.com/gyrohq/gyro/protocol"
)

// Member is the node as its cluster sees it: a cluster.Handler. The exported fields are
// constant.
type Member struct {
	// UID, Name, Version and the time of the start are what the node tells of itself.
	UID, Name, Version string
	Started            time.Time
	Clients            *client.Registry
	Routes             *route.Table
	Log                *slog.Logger
	// Survey answers the application's surveys.
	Survey func(ctx context.Context, from, op string, data []byte) (cluster.Answer, error)

	// subscriptions is their number as it was when it was asked for last.
	subscriptions atomic.Int64
}

// Describe implements cluster.Handler. A loop that hangs must not make the node look
// dead as well.
func (m *Member) Describe(ctx context.Context) cluster.Info {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	info, _ := m.Info(ctx) // with what is known
	return info
}

// Info returns what the node is at this moment. With an error the number of
// subscriptions is that of a moment before.
func (m *Member) Info(ctx context.Context) (cluster.Info, error) {
	subs, err := m.Clients.Subscriptions(ctx)
	if err == nil {
		m.subscriptions.Store(int64(subs))
	}
	info := cluster.Info{
		UID: m.UID, Name: m.Name, Version: m.Version, NumSubs: int(m.subscriptions.Load()),
		NumChannels: m.Routes.Size(), Uptime: int64(time.Since(m.Started) / time.Second),
	}
	info.NumClients, info.NumUsers = m.Clients.Totals()
	return info, err
}

// Answer implements cluster.Handler.
func (m *Member) Answer(ctx context.Context, from, op string, data []byte) (cluster.Answer, error) {
	return m.Survey(ctx, from, op, data)
}

// Channels implements cluster.Handler.
func (m *Member) Channels(ctx context.Context, match func(string) bool) (map[string]int, error) {
	return m.Clients.Channels(ctx, match)
}

// Apply implements cluster.Handler.
func (m *Member) Apply(cmd *control.Command) {
	var o Operation
	switch {
	case cmd.Subscribe != nil:
		c := cmd.Subscribe
		opts, err := c.Options()
		if err != nil {
			m.Log.Warn("control message is not understood", "node", cmd.UID, "channel", c.Channel, "error", err)
			return
		}
		o = Subscribe(users.Target{User: c.User, Client: c.Client, Session: c.Session}, c.Channel, opts)
	case cmd.Unsubscribe != nil:
		c := cmd.Unsubscribe
		o = Unsubscribe(users.Target{User: c.User, Client: c.Client, Session: c.Session},
			c.Channel, protocol.Unsubscribe{Code: c.Code, Reason: c.Reason})
	case cmd.Disconnect != nil:
		c := cmd.Disconnect
		o = Disconnect(users.Target{User: c.User, Client: c.Client, Session: c.Session, Whitelist: c.Whitelist},
			protocol.Disconnect{Code: c.Code, Reason: c.Reason})
	case cmd.Refresh != nil:
		c := cmd.Refresh
		o = Refresh(users.Target{User: c.User, Client: c.Client, Session: c.Session}, c.Expired, c.ExpireAt, c.Info)
	default:
		return
	}
	m.Clients.PostEach(&o.Target, o.do)
}

// Operate does an operation on every node, the others first. No error means that all
// have done it.
func (m *Member) Operate(ctx context.Context, c *cluster.Cluster, o Operation) error {
	if err := c.Tell(ctx, &o.command); err != nil {
		return err
	}
	return m.Clients.Each(ctx, &o.Target, o.do)
}

// Operation is what is done with the clients of its target: by do here, by command
// elsewhere.
type Operation struct {
	users.Target
	command control.Command
	do      func(*client.Client)
}

// Subscribe makes a server-side subscription.
func Subscribe(t users.Target, ch string, o *channel.SubscribeOptions) Operation {
	cmd := control.NewSubscribe(t.User, ch, o)
	cmd.Client, cmd.Session = t.Client, t.Session
	return Operation{t, control.Command{Subscribe: cmd}, func(c *client.Client) { c.Subscribe(ch, o) }}
}

// Unsubscribe ends the subscription to a channel.
func Unsubscribe(t users.Target, ch string, u protocol.Unsubscribe) Operation {
	return Operation{t, control.Command{Unsubscribe: &control.Unsubscribe{
		User: t.User, Channel: ch, Client: t.Client, Session: t.Session, Code: u.Code, Reason: u.Reason,
	}}, func(c *client.Client) { c.Session().Unsubscribe(ch, u) }}
}

// Disconnect closes the connection.
func Disconnect(t users.Target, d protocol.Disconnect) Operation {
	return Operation{t, control.Command{Disconnect: &control.Disconnect{
		User: t.User, Client: t.Client, Session: t.Session, Whitelist: t.Whitelist, Code: d.Code, Reason: d.Reason,
	}}, func(c *client.Client) { c.Session().Dismiss(d) }}
}

// Refresh changes the expiration of the connection.
func Refresh(t users.Target, expired bool, expireAt int64, info []byte) Operation {
	return Operation{t, control.Command{Refresh: &control.Refresh{
		User: t.User, Client: t.Client, Session: t.Session, Expired: expired, ExpireAt: expireAt, Info: info,
	}}, func(c *client.Client) { c.Session().Refresh(expired, expireAt, info) }}
}

var _ cluster.Handler = (*Member)(nil)
