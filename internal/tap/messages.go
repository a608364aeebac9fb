package tap

import (
	"bytes"
	"time"

	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// ID of a client. It is called only if a tap watches the client.
type ID interface{ ID() string }

// Client is a client whose messages taps may watch.
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

// Watches reports whether a tap watches the messages to a client.
func (t *Table) Watches(c Client) bool {
	a := t.current()
	return a != nil && a.ofClient(c) != nil
}

// Delivered tells of a message that a client gets as a subscriber.
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

func (t *taps) received(id ID, c Client, cmd *protocol.Command) {
	ch := cmd.Channel()
	byUser, byChannel := t.ofClient(c), t.ofChannel(ch)
	if byUser == nil && byChannel == nil {
		return
	}
	e := t.event(observe.TapReceived, id, c)
	m, _ := clientmetrics.Method(cmd)
	e.Channel, e.Type = ch, m.String()
	shown := cmd.Redacted()
	e.Message, e.Protobuf, e.Size = encode(
		func() ([]byte, error) { return codec.ForClient(protocol.JSON).AppendCommand(nil, shown) },
		func() ([]byte, error) { return shown.AppendProto(nil), nil })
	for _, one := range byChannel {
		if cmd.ID != 0 {
			one.awaits(command{e.Client, cmd.ID})
		}
	}
	addTo(e, byUser, byChannel)
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
	addTo(e, byUser, byChannel)
}

func (t *taps) delivered(id ID, c Client, m Message) {
	byUser := t.ofClient(c)
	if byUser == nil {
		return
	}
	if p := m.Push(); p != nil {
		e := t.event(observe.TapDelivered, id, c)
		t.push(&e, p)
		addTo(e, byUser)
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
		addTo(e, byChannel)
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
	addTo(e, byUser)
}

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

func addTo(e observe.Tapped, lists ...[]*tap) {
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
	r = r.Redacted()
	e.Message, e.Protobuf, e.Size = encode(
		func() ([]byte, error) { return codec.For(protocol.JSON).AppendReply(nil, r) },
		func() ([]byte, error) { return r.AppendProto(nil), nil })
}

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

func replyType(r *protocol.Reply) string {
	switch m := observe.Message(r.Method()); {
	case r.Push != nil:
		return clientmetrics.Push(r.Push).String()
	case m != observe.MessageUnknown:
		return m.String()
	case r.Error != nil:
		return "error"
	case r.ID == 0:
		return observe.MessageServerPing.String()
	}
	return observe.MessageUnknown.String()
}
