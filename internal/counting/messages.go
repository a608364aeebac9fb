package counting

import (
	"bytes"
	"slices"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Received counts a command, and notes it if it will have an answer. text is the command as it
// was received; nil if that is not known.
func (c *Counter) Received(of Client, cmd *protocol.Command, text []byte) {
	if c == nil {
		return
	}
	m := method(cmd)
	c.received(of, m, text)
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
	c.of, c.newest = of, command{cmd.ID, m, c.clock.Clock()}
}

// Malformed counts what could not be decoded.
func (c *Counter) Malformed(of Client, text []byte) {
	if c != nil {
		c.received(of, observe.MessageUnknown, text)
	}
}

func (c *Counter) received(of Client, m observe.Message, text []byte) {
	f := of.Via().Framer
	if f.Encoding() == protocol.JSON {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	grow(&c.transport(f).Received[m], 1, len(text))
}

// method of a command, as the session sees it: the first one, if there are several.
func method(cmd *protocol.Command) observe.Message {
	switch {
	case cmd.Connect != nil:
		return observe.MessageConnect
	case cmd.Ping != nil:
		return observe.MessageUnknown // the protocol does not use it
	case cmd.Subscribe != nil:
		return observe.MessageSubscribe
	case cmd.Unsubscribe != nil:
		return observe.MessageUnsubscribe
	case cmd.Publish != nil:
		return observe.MessagePublish
	case cmd.Presence != nil:
		return observe.MessagePresence
	case cmd.PresenceStats != nil:
		return observe.MessagePresenceStats
	case cmd.History != nil:
		return observe.MessageHistory
	case cmd.RPC != nil:
		return observe.MessageRPC
	case cmd.Send != nil:
		return observe.MessageSend
	case cmd.Refresh != nil:
		return observe.MessageRefresh
	case cmd.SubRefresh != nil:
		return observe.MessageSubRefresh
	case cmd.ID == 0:
		return observe.MessageClientPong
	}
	return observe.MessageUnknown
}

// Replied counts a reply or push to one client, of size bytes, and what it says: that a command
// is answered, or that a subscription has ended.
func (c *Counter) Replied(of Client, r *protocol.Reply, size int) {
	if c == nil {
		return
	}
	m := observe.MessageServerPing
	switch {
	case r.ID != 0:
		m = c.answered(of, r)
	case r.Push != nil:
		m = push(r.Push)
		if r.Push.Unsubscribe != nil {
			c.unsubscribe(r.Push.Unsubscribe.Code)
		}
	case r.Connect != nil:
		m = observe.MessagePushConnect
	}
	grow(&c.transport(of.Via().Framer).Sent[m], 1, size)
}

// answered counts the answer to a command and returns the command's method.
func (c *Counter) answered(of Client, r *protocol.Reply) observe.Message {
	cmd, ok := c.take(of, r.ID)
	if !ok {
		return observe.MessageUnknown
	}
	done := observe.Command{Method: cmd.method, Took: time.Duration(c.clock.Clock() - cmd.at)}
	if r.Error != nil {
		done.Code = r.Error.Code
	}
	add(c, &c.turn.Commands, done)
	return cmd.method
}

// push returns the type of a push that is for one client.
func push(p *protocol.Push) observe.Message {
	switch {
	case p.Unsubscribe != nil:
		return observe.MessagePushUnsubscribe
	case p.Subscribe != nil:
		return observe.MessagePushSubscribe
	case p.Pub != nil:
		return observe.MessagePushPublication
	case p.Message != nil:
		return observe.MessagePushMessage
	case p.Refresh != nil:
		return observe.MessagePushRefresh
	case p.Disconnect != nil:
		return observe.MessagePushDisconnect
	}
	return observe.MessageUnknown
}

// take removes the oldest waiting command of an ID.
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

// forget removes the list of a client, and keeps its memory for later.
func (c *Counter) forget(of Client, list []command) {
	delete(c.waiting, of)
	if len(c.free) < keepLists && cap(list) <= keepSize {
		c.free = append(c.free, list[:0])
	}
}

func (c *Counter) unsubscribe(code uint32) {
	list := c.turn.Unsubscribes
	for i := range list {
		if list[i].Code == code {
			list[i].Count++
			return
		}
	}
	add(c, &c.turn.Unsubscribes, observe.Unsubscribe{Code: code, Count: 1})
}

// kinds are the types of the messages of hubs.
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
func (c *Counter) Sent(k hub.Kind, f transport.Framer, messages, bytes int) {
	grow(&c.transport(f.(*via.Framer)).Sent[kinds[k]], messages, bytes)
}

// Filtered implements hub.Counter.
func (c *Counter) Filtered(publications int) {
	c.turn.Filtered += publications
	c.some = true
}

// Taken implements hub.Counter.
func (c *Counter) Taken(p *channel.Publication) {
	if p.Time != 0 {
		lag := max(c.clock.Now()/int64(time.Millisecond)-p.Time, 0)
		count(c, &c.turn.Lags, time.Duration(lag)*time.Millisecond, 1)
	}
}

// Done implements hub.Counter.
func (c *Counter) Done(since int64, publications int) {
	count(c, &c.broadcasts, time.Duration(since), publications)
}
