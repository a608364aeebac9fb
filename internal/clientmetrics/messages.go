package clientmetrics

import (
	"bytes"
	"slices"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Received counts a command, and notes it if it will have an answer. text is the command as it was received, or nil.
func (c *Counter) Received(of Client, cmd *protocol.Command, text []byte) {
	if c == nil {
		return
	}
	m, ch := Method(cmd)
	space := c.namespaceOf(ch)
	c.received(of, m, space, text)
	if cmd.ID == 0 || m == observe.MessageSend {
		return
	}
	if of := c.of; of != nil {
		list := c.waiting[of]
		if n := len(c.free); list == nil && n > 0 {
			list, c.free = c.free[n-1], c.free[:n-1]
		}
		c.waiting[of] = append(list, c.newest)
	}
	c.of, c.newest = of, command{cmd.ID, m, c.clock.Clock(), space}
}

// Malformed counts commands that could not be decoded.
func (c *Counter) Malformed(of Client, text []byte) {
	if c != nil {
		c.received(of, observe.MessageUnknown, "", text)
	}
}

func (c *Counter) received(of Client, m observe.Message, space string, text []byte) {
	f := of.Via().Framer
	if f.Encoding() == protocol.JSON {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	grow(&c.transport(f, space).Received[m], 1, len(text))
}

// Method returns the type of a command, and its channel if it has one.
func Method(cmd *protocol.Command) (m observe.Message, ch string) {
	m = observe.Message(cmd.Method())
	if m == observe.MessageUnknown && cmd.ID == 0 && cmd.Ping == nil { // the protocol does not use the ping of a client
		m = observe.MessageClientPong
	}
	return m, cmd.Channel()
}

// Replied counts a reply or push of size bytes, and what it means: a command is answered, or a subscription has ended.
func (c *Counter) Replied(of Client, r *protocol.Reply, size int) {
	if c == nil {
		return
	}
	m, space := observe.MessageServerPing, ""
	switch {
	case r.ID != 0:
		m, space = c.answered(of, r)
	case r.Push != nil:
		m, space = Push(r.Push), c.namespaceOf(r.Push.Channel)
		if r.Push.Unsubscribe != nil {
			c.unsubscribe(space, r.Push.Unsubscribe.Code)
		}
	case r.Connect != nil:
		m = observe.MessagePushConnect
	}
	grow(&c.transport(of.Via().Framer, space).Sent[m], 1, size)
}

func (c *Counter) answered(of Client, r *protocol.Reply) (m observe.Message, space string) {
	cmd, ok := c.take(of, r.ID)
	if !ok {
		return observe.MessageUnknown, ""
	}
	done := observe.Command{Method: cmd.method, Namespace: cmd.space, Took: time.Duration(c.clock.Clock() - cmd.at)}
	if r.Error != nil {
		done.Code = r.Error.Code
	}
	add(c, &c.turn.Commands, done)
	return cmd.method, cmd.space
}

// Push returns the type of a push.
func Push(p *protocol.Push) observe.Message {
	switch {
	case p.Unsubscribe != nil:
		return observe.MessagePushUnsubscribe
	case p.Subscribe != nil:
		return observe.MessagePushSubscribe
	case p.Pub != nil:
		return observe.MessagePushPublication
	case p.Join != nil:
		return observe.MessagePushJoin
	case p.Leave != nil:
		return observe.MessagePushLeave
	case p.Message != nil:
		return observe.MessagePushMessage
	case p.Refresh != nil:
		return observe.MessagePushRefresh
	case p.Disconnect != nil:
		return observe.MessagePushDisconnect
	}
	return observe.MessageUnknown
}

func (c *Counter) take(of Client, id uint32) (cmd command, ok bool) {
	list := c.waiting[of]
	for i := range list {
		if list[i].id != id {
			continue
		}
		cmd = list[i]
		if i == 0 && len(list) > 1 {
			c.waiting[of] = list[1:] // answers mostly come in order, and the list may be long
		} else if list = slices.Delete(list, i, i+1); len(list) == 0 {
			c.forget(of, list)
		} else {
			c.waiting[of] = list
		}
		return cmd, true
	}
	if c.of == of && c.newest.id == id {
		c.of = nil
		return c.newest, true
	}
	return command{}, false
}

// forget keeps the memory of a client's list for later.
func (c *Counter) forget(of Client, list []command) {
	delete(c.waiting, of)
	if len(c.free) < keepLists && cap(list) <= keepSize {
		c.free = append(c.free, list[:0])
	}
}

func (c *Counter) unsubscribe(space string, code uint32) {
	list := c.turn.Unsubscribes
	for i := range list {
		if list[i].Code == code && list[i].Namespace == space {
			list[i].Count++
			return
		}
	}
	add(c, &c.turn.Unsubscribes, observe.Unsubscribe{Namespace: space, Code: code, Count: 1})
}

var kinds = [...]observe.Message{
	hub.KindPublication: observe.MessagePushPublication, hub.KindJoin: observe.MessagePushJoin, hub.KindLeave: observe.MessagePushLeave,
}

// Delivered counts a message that only one subscriber got.
func (c *Counter) Delivered(d *hub.Delivery) {
	if c != nil {
		d.Tell(c)
	}
}

// Sent implements hub.Counter.
func (c *Counter) Sent(ch string, k hub.Kind, f transport.Framer, messages, bytes int) {
	grow(&c.transport(f.(*connkind.Framer), c.namespaceOf(ch)).Sent[kinds[k]], messages, bytes)
}

// Filtered implements hub.Counter.
func (c *Counter) Filtered(ch string, publications int) {
	space := c.namespaceOf(ch)
	for i := range c.turn.Filtered {
		if e := &c.turn.Filtered[i]; e.Namespace == space {
			e.Count += publications
			return
		}
	}
	add(c, &c.turn.Filtered, observe.Filtered{Namespace: space, Count: publications})
}

// Taken implements hub.Counter.
func (c *Counter) Taken(ch string, p *channel.Publication) {
	if p.Time == 0 {
		return
	}
	if c.now == 0 {
		c.now = c.clock.Cluster()
	}
	lag := max(c.now/int64(time.Millisecond)-p.Time, 0)
	count(c, &c.turn.Lags, c.namespaceOf(ch), time.Duration(lag)*time.Millisecond, 1)
}

// Done implements hub.Counter.
func (c *Counter) Done(ch string, since int64, p *channel.Publication) {
	space := c.namespaceOf(ch)
	count(c, &c.broadcasts, space, time.Duration(since), 1)
	if p.Time != 0 {
		count(c, &c.writes, space, time.Duration(p.Time)*time.Millisecond, 1)
	}
}
