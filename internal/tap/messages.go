package tap

import (
	"bytes"
	"time"

	"github.com/gyrohq/gyro/internal/counting"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// ID of a client. The method is called only if somebody watches the client.
type ID interface{ ID() string }

// Client of which taps are told.
type Client interface {
	User() string
	// Agent tells whether the client has connected, so that its user is known.
	Agent() (a observe.Agent, connected bool)
}

// Message of a channel.
type Message interface {
	// Push returns nil if there is nothing to tell.
	Push() *protocol.Push
}

// connected reports whether the user of a client is known.
func connected(c Client) bool {
	_, ok := c.Agent()
	return ok
}

// Received tells of a command of a client.
func (t *Table) Received(id ID, c Client, cmd *protocol.Command) {
	if a := t.current(); a != nil {
		a.received(id, c, cmd)
	}
}

// Sent tells of a reply or push to a client alone.
func (t *Table) Sent(id ID, c Client, r *protocol.Reply) {
	if a := t.current(); a != nil {
		a.sent(id, c, r)
	}
}

// Watches reports whether what is delivered to a client is watched.
func (t *Table) Watches(c Client) bool {
	a := t.current()
	return a != nil && a.ofClient(c) != nil
}

// Delivered tells of a message that a client gets as a subscriber of a channel.
func (t *Table) Delivered(id ID, c Client, m Message) {
	if a := t.current(); a != nil {
		a.delivered(id, c, m)
	}
}

// Published tells of a message for all subscribers of the node.
func (t *Table) Published(ch string, m Message) {
	if a := t.current(); a != nil {
		a.published(ch, m)
	}
}

// Closed tells of the end of a connection.
func (t *Table) Closed(id ID, c Client, d protocol.Disconnect) {
	if a := t.current(); a != nil {
		a.closed(id, c, d)
	}
}

// hidden stands for what is not shown.
const hidden = "***"

func (t *taps) received(id ID, c Client, cmd *protocol.Command) {
	ch := channelOf(cmd)
	byUser, byChannel := t.ofClient(c), t.ofChannel(ch)
	if byUser == nil && byChannel == nil {
		return
	}
	e := t.event(observe.TapReceived, id, c)
	m, _ := counting.Method(cmd)
	e.Channel, e.Type = ch, m.String()
	shown := withoutSecrets(cmd)
	e.Message, e.Protobuf, e.Size = encode(
		func() ([]byte, error) { return codec.ForClient(protocol.JSON).AppendCommand(nil, shown) },
		func() ([]byte, error) { return shown.AppendProto(nil), nil })
	for _, one := range byChannel {
		if cmd.ID != 0 {
			one.awaits(command{e.Client, cmd.ID})
		}
	}
	keep(e, byUser, byChannel)
}

func (t *taps) sent(id ID, c Client, r *protocol.Reply) {
	byUser := t.ofClient(c)
	if r.Connect != nil { // the client has not connected before it has this
		byUser = t.users[c.User()]
	}
	var byChannel []*tap
	ch := ""
	switch {
	case r.Push != nil:
		ch = r.Push.Channel
		byChannel = t.ofChannel(ch)
	case r.ID != 0 && len(t.channels) > 0:
		cmd := command{id.ID(), r.ID}
		for _, list := range t.channels {
			for _, one := range list {
				if one.awaited(cmd) {
					byChannel, ch = append(byChannel, one), one.Entity
				}
			}
		}
	}
	if byUser == nil && byChannel == nil {
		return
	}
	e := t.event(observe.TapSent, id, c)
	e.Channel, e.Type = ch, replyType(r)
	if r.Error != nil {
		e.Code, e.Reason = r.Error.Code, r.Error.Message
	}
	t.reply(&e, r)
	keep(e, byUser, byChannel)
}

func (t *taps) delivered(id ID, c Client, m Message) {
	byUser := t.ofClient(c)
	if byUser == nil {
		return
	}
	if p := m.Push(); p != nil {
		e := t.event(observe.TapDelivered, id, c)
		t.push(&e, p)
		keep(e, byUser)
	}
}

func (t *taps) published(ch string, m Message) {
	byChannel := t.ofChannel(ch)
	if byChannel == nil {
		return
	}
	if p := m.Push(); p != nil {
		e := t.event(observe.TapPublished, nil, nil)
		t.push(&e, p)
		keep(e, byChannel)
	}
}

func (t *taps) closed(id ID, c Client, d protocol.Disconnect) {
	if len(t.channels) > 0 {
		client := id.ID()
		for _, list := range t.channels {
			for _, one := range list {
				one.forget(client)
			}
		}
	}
	byUser := t.ofClient(c)
	if byUser == nil {
		return
	}
	e := t.event(observe.TapDisconnected, id, c)
	e.Code, e.Reason = d.Code, d.Reason
	keep(e, byUser)
}

// ofClient returns the taps of the client's user.
func (t *taps) ofClient(c Client) []*tap {
	if len(t.users) == 0 || !connected(c) {
		return nil
	}
	return t.users[c.User()]
}

func (t *taps) ofChannel(ch string) []*tap {
	if ch == "" {
		return nil
	}
	return t.channels[ch]
}

func (t *taps) event(name string, id ID, c Client) observe.Tapped {
	e := observe.Tapped{Time: time.Now(), Node: t.node, Event: name}
	if c != nil {
		e.Client, e.User = id.ID(), c.User()
	}
	return e
}

func keep(e observe.Tapped, lists ...[]*tap) {
	for _, list := range lists {
		for _, one := range list {
			one.add(e)
		}
	}
}

func (t *taps) push(e *observe.Tapped, p *protocol.Push) {
	e.Channel = p.Channel
	r := &protocol.Reply{Push: p}
	e.Type = replyType(r)
	t.reply(e, r)
}

func (t *taps) reply(e *observe.Tapped, r *protocol.Reply) {
	if r.Connect != nil && r.Connect.Session != "" {
		shown, result := *r, *r.Connect
		result.Session, shown.Connect = hidden, &result
		r = &shown
	}
	e.Message, e.Protobuf, e.Size = encode(
		func() ([]byte, error) { return codec.For(protocol.JSON).AppendReply(nil, r) },
		func() ([]byte, error) { return r.AppendProto(nil), nil })
}

// encode returns a message in JSON, or else in Protobuf, or else its size.
func encode(json, proto func() ([]byte, error)) (text, data []byte, size int) {
	text, err := json()
	if text = bytes.TrimSuffix(text, []byte{'\n'}); err == nil && len(text) <= maxMessage {
		return text, nil, 0
	}
	if err == nil {
		return nil, nil, len(text)
	}
	if data, err = proto(); err == nil && len(data) <= maxMessage {
		return nil, data, 0
	}
	return nil, nil, len(data)
}

// withoutSecrets returns a copy of a command without tokens and the values of headers.
func withoutSecrets(cmd *protocol.Command) *protocol.Command {
	out := *cmd
	hide := func(token *string) {
		if *token != "" {
			*token = hidden
		}
	}
	subscribe := func(r *protocol.SubscribeRequest) *protocol.SubscribeRequest {
		if r == nil {
			return nil
		}
		shown := *r
		hide(&shown.Token)
		return &shown
	}
	switch {
	case cmd.Connect != nil:
		shown := *cmd.Connect
		hide(&shown.Token)
		if shown.Headers != nil {
			shown.Headers = make(map[string]string, len(cmd.Connect.Headers))
			for name := range cmd.Connect.Headers {
				shown.Headers[name] = hidden
			}
		}
		if shown.Subs != nil {
			shown.Subs = make(map[string]*protocol.SubscribeRequest, len(cmd.Connect.Subs))
			for ch, r := range cmd.Connect.Subs {
				shown.Subs[ch] = subscribe(r)
			}
		}
		out.Connect = &shown
	case cmd.Subscribe != nil:
		out.Subscribe = subscribe(cmd.Subscribe)
	case cmd.Refresh != nil:
		shown := *cmd.Refresh
		hide(&shown.Token)
		out.Refresh = &shown
	case cmd.SubRefresh != nil:
		shown := *cmd.SubRefresh
		hide(&shown.Token)
		shown.Track = make([]*protocol.TrackBatch, len(cmd.SubRefresh.Track))
		for i, batch := range cmd.SubRefresh.Track {
			b := *batch
			hide(&b.Signature)
			shown.Track[i] = &b
		}
		out.SubRefresh = &shown
	}
	return &out
}

// replyType is the type of a reply: that of its result.
func replyType(r *protocol.Reply) string {
	m := observe.MessageUnknown
	switch {
	case r.Push != nil:
		m = counting.Push(r.Push)
	case r.Connect != nil:
		m = observe.MessageConnect
	case r.Subscribe != nil:
		m = observe.MessageSubscribe
	case r.Unsubscribe != nil:
		m = observe.MessageUnsubscribe
	case r.Publish != nil:
		m = observe.MessagePublish
	case r.Presence != nil:
		m = observe.MessagePresence
	case r.PresenceStats != nil:
		m = observe.MessagePresenceStats
	case r.History != nil:
		m = observe.MessageHistory
	case r.RPC != nil:
		m = observe.MessageRPC
	case r.Refresh != nil:
		m = observe.MessageRefresh
	case r.SubRefresh != nil:
		m = observe.MessageSubRefresh
	case r.Error != nil:
		return "error"
	case r.ID == 0:
		m = observe.MessageServerPing
	}
	return m.String()
}

// channelOf is the channel of a command; empty if it has none.
func channelOf(cmd *protocol.Command) string {
	switch {
	case cmd.Subscribe != nil:
		return cmd.Subscribe.Channel
	case cmd.Unsubscribe != nil:
		return cmd.Unsubscribe.Channel
	case cmd.Publish != nil:
		return cmd.Publish.Channel
	case cmd.Presence != nil:
		return cmd.Presence.Channel
	case cmd.PresenceStats != nil:
		return cmd.PresenceStats.Channel
	case cmd.History != nil:
		return cmd.History.Channel
	case cmd.SubRefresh != nil:
		return cmd.SubRefresh.Channel
	}
	return ""
}
