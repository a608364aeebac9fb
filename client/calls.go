package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// call is a command. Its outcome is taken under the client's lock.
type call struct {
	cmd     *protocol.Command
	started func() // when it is sent; may be nil
	done    func(*protocol.Reply, error)
}

type outcome struct {
	reply *protocol.Reply
	err   error
}

func (c *Client) do(ctx context.Context, cmd *protocol.Command) (*protocol.Reply, error) {
	answer := make(chan outcome, 1)
	sent := make(chan struct{}, 1)
	one := &call{
		cmd: cmd, started: func() { sent <- struct{}{} }, done: func(r *protocol.Reply, err error) { answer <- outcome{r, err} },
	}
	if err := c.issue(one); err != nil {
		return nil, err
	}
	late := time.NewTimer(c.options.Timeout)
	defer late.Stop()
	for {
		select {
		case o := <-answer:
			if o.err == nil && o.reply.Error != nil {
				o.err = o.reply.Error
			}
			return o.reply, o.err
		case <-sent:
			late.Reset(c.options.Timeout)
		case <-late.C:
			c.withdraw(one)
			return nil, ErrTimeout
		case <-ctx.Done():
			c.withdraw(one)
			return nil, context.Cause(ctx)
		}
	}
}

func (c *Client) issue(one *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.state == Disconnected:
		return c.disconnected()
	case c.state == Connected:
		c.link.send(one)
		c.link.flush()
	default:
		c.calls = append(c.calls, one)
	}
	return nil
}

func (c *Client) withdraw(one *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = slices.DeleteFunc(c.calls, func(other *call) bool { return other == one })
	if c.link != nil && c.link.answers[one.cmd.ID] == one {
		delete(c.link.answers, one.cmd.ID)
	}
}

// RPC calls a method of the application, as soon as the client is connected, and returns its answer. It fails as Publish does.
func (c *Client) RPC(ctx context.Context, method string, data []byte) ([]byte, error) {
	r, err := c.do(ctx, &protocol.Command{RPC: &protocol.RPCRequest{Method: method, Data: data}})
	if err != nil {
		return nil, fmt.Errorf("client: rpc %q: %w", method, err)
	}
	if r.RPC == nil {
		return nil, noResult("rpc")
	}
	return r.RPC.Data, nil
}

// Send sends a message to the application, as soon as the client is connected. There is no reply. It fails as Publish
// does, but by no error of the server.
func (c *Client) Send(ctx context.Context, data []byte) error {
	_, err := c.do(ctx, &protocol.Command{Send: &protocol.SendRequest{Data: data}})
	if err != nil {
		return fmt.Errorf("client: send: %w", err)
	}
	return nil
}

// Publish publishes to a channel, as soon as the client is connected; it need not be subscribed. The error is an *Error
// if the server refuses, ErrLost or ErrTimeout if the outcome is not known, ErrDisconnected with a Reason, ErrClosed, or the error of ctx.
func (c *Client) Publish(ctx context.Context, channel string, data []byte) error {
	return c.publish(ctx, &protocol.PublishRequest{Channel: channel, Data: data})
}

func (c *Client) publish(ctx context.Context, r *protocol.PublishRequest) error {
	if _, err := c.do(ctx, &protocol.Command{Publish: r}); err != nil {
		return fmt.Errorf("client: publish to %q: %w", r.Channel, err)
	}
	return nil
}

// Presence are the clients that are subscribed to a channel, by their IDs. It waits, and fails, as Publish does.
func (c *Client) Presence(ctx context.Context, channel string) (map[string]*ClientInfo, error) {
	r, err := c.do(ctx, &protocol.Command{Presence: &protocol.PresenceRequest{Channel: channel}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("client: presence of %q: %w", channel, err)
	case r.Presence == nil:
		return nil, noResult("presence")
	}
	return r.Presence.Presence, nil
}

// PresenceStats are the numbers of clients and of users that are subscribed to a channel.
type PresenceStats struct{ Clients, Users int }

// PresenceStats counts the clients and users that are subscribed to a channel. It waits, and fails, as Publish does.
func (c *Client) PresenceStats(ctx context.Context, channel string) (PresenceStats, error) {
	r, err := c.do(ctx, &protocol.Command{PresenceStats: &protocol.PresenceStatsRequest{Channel: channel}})
	switch {
	case err != nil:
		return PresenceStats{}, fmt.Errorf("client: presence stats of %q: %w", channel, err)
	case r.PresenceStats == nil:
		return PresenceStats{}, noResult("presence stats")
	}
	return PresenceStats{int(r.PresenceStats.NumClients), int(r.PresenceStats.NumUsers)}, nil
}

// HistoryOptions select publications of a stream.
type HistoryOptions struct {
	// Limit is the most to return; the server may have a limit of its own. 0: the position alone; less than 0: as many
	// as the server returns.
	Limit int
	// Since is the position after which they begin, or before which, if Reverse is set. nil: the beginning, or the end.
	Since *StreamPosition
	// Reverse: the newest first.
	Reverse bool
}

// History is a part of a stream, and the position of its end.
type History struct {
	Publications []Publication
	Top          StreamPosition
}

// History reads the stream of a channel, as soon as the client is connected. It fails as Publish does.
func (c *Client) History(ctx context.Context, channel string, o HistoryOptions) (History, error) {
	r, err := c.do(ctx, &protocol.Command{History: &protocol.HistoryRequest{
		Channel: channel, Limit: int32(min(max(o.Limit, -1), 1<<31-1)), Since: o.Since, Reverse: o.Reverse,
	}})
	switch {
	case err != nil:
		return History{}, fmt.Errorf("client: history of %q: %w", channel, err)
	case r.History == nil:
		return History{}, noResult("history")
	}
	h := History{Top: StreamPosition{Offset: r.History.Offset, Epoch: r.History.Epoch}}
	for _, p := range r.History.Publications {
		h.Publications = append(h.Publications, Publication{Channel: channel, Data: p.Data, Offset: p.Offset, Info: p.Info, Tags: p.Tags})
	}
	return h, nil
}

// Publish publishes to the channel, once the client is subscribed. It fails as Ready and Client.Publish do.
func (s *Subscription) Publish(ctx context.Context, data []byte) error {
	if err := s.Ready(ctx); err != nil {
		return err
	}
	return s.c.Publish(ctx, s.channel, data)
}

// Presence is Client.Presence of the channel, once the client is subscribed. It fails as Ready and Client.Publish do.
func (s *Subscription) Presence(ctx context.Context) (map[string]*ClientInfo, error) {
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	return s.c.Presence(ctx, s.channel)
}

// PresenceStats is Client.PresenceStats of the channel, once the client is subscribed. It fails as Ready and
// Client.Publish do.
func (s *Subscription) PresenceStats(ctx context.Context) (PresenceStats, error) {
	if err := s.Ready(ctx); err != nil {
		return PresenceStats{}, err
	}
	return s.c.PresenceStats(ctx, s.channel)
}

// History is Client.History of the channel, once the client is subscribed. It fails as Ready and Client.Publish do.
func (s *Subscription) History(ctx context.Context, o HistoryOptions) (History, error) {
	if err := s.Ready(ctx); err != nil {
		return History{}, err
	}
	return s.c.History(ctx, s.channel, o)
}
