package client

import (
	"context"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

func (e *env) Received(cmd *protocol.Command) {
	if n := e.loop.counts; n != nil {
		n.Received(&e.session, cmd)
	}
}

func (e *env) Replied(r *protocol.Reply) {
	if n := e.loop.counts; n != nil {
		n.Replied(&e.session, r)
	}
}

// refusals are the log messages of limits, and the configuration keys that change them.
var refusals = [observe.NumLimits]struct {
	message, key string
	limit        func(*Registry) int
}{
	observe.LimitChannelLength: {"channel refused: its name is too long", "ChannelMaxLength (channel.max_length)",
		func(r *Registry) int { return r.Session.ChannelMaxLength }},
	observe.LimitChannels: {"subscription refused: the client has too many", "ChannelLimit (client.channel_limit)",
		func(r *Registry) int { return r.Session.ChannelLimit }},
	observe.LimitReply: {"reply refused: it is too large", "QueueMaxSize (client.queue_max_size)",
		func(r *Registry) int { return r.Session.QueueMaxSize }},
	observe.LimitQueue: {"slow client: too much waits for it", "QueueMaxSize (client.queue_max_size)",
		func(r *Registry) int { return r.Session.QueueMaxSize }},
	observe.LimitPending: {"client refused: it sent too much while its commands wait", "CommandLimit",
		func(r *Registry) int { return r.Session.PendingMaxSize }},
	observe.LimitConnections: {"client refused: its user has too many connections", "UserConnectionLimit (client.user_connection_limit)",
		func(r *Registry) int { return r.UserConnectionLimit }},
}

func (e *env) Refused(l observe.Limit, ch string) {
	if n := e.loop.counts; n != nil {
		n.Refused(l)
	}
	of, clients := &refusals[l], e.loop.clients
	args := []any{"client", e.id, "user", e.session.User(), "key", of.key}
	if ch != "" {
		args = append(args, "channel", ch[:min(len(ch), clients.Session.ChannelMaxLength)], "length", len(ch))
	}
	clients.Log.Info(of.message, append(args, "limit", of.limit(clients))...)
}

// begin tells the observer that an effect begins. The caller calls done when the effect ends.
func (x *executor) begin(ctx context.Context, what *observe.Effect) (_ context.Context, done func(error)) {
	begin := x.node().Observer.Effect
	if begin == nil {
		return ctx, unobserved
	}
	what.Client = x.client()
	if ctx, done = begin(ctx, *what); done == nil {
		done = unobserved
	}
	return ctx, done
}

func unobserved(error) {}
