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

// refusals are the messages of limits, and the keys that change them.
var refusals = [observe.NumLimits]struct{ message, key string }{
	observe.LimitChannelLength: {"channel refused: its name is too long", "ChannelMaxLength (channel.max_length)"},
	observe.LimitChannels:      {"subscription refused: the client has too many", "ChannelLimit (client.channel_limit)"},
	observe.LimitReply:         {"reply refused: it is too large", "QueueMaxSize (client.queue_max_size)"},
	observe.LimitQueue:         {"slow client: too much waits for it", "QueueMaxSize (client.queue_max_size)"},
	observe.LimitPending:       {"client refused: it sent too much while its commands wait", "CommandLimit"},
	observe.LimitConnections:   {"client refused: its user has too many connections", "UserConnectionLimit (client.user_connection_limit)"},
}

func (e *env) Refused(l observe.Limit, ch string) {
	if n := e.loop.counts; n != nil {
		n.Refused(l)
	}
	r := &refusals[l]
	args := []any{"client", e.id, "user", e.session.User(), "limit", r.key}
	if ch != "" {
		args = append(args, "channel", ch[:min(len(ch), e.loop.clients.Session.ChannelMaxLength)], "length", len(ch))
	}
	e.loop.clients.Log.Info(r.message, args...)
}

// begin tells the observer that an effect begins; done has to be called when it ends.
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
