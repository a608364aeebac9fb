// Package counting gathers what the clients of a loop do, for an observer.
package counting

import (
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/contain"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// most is the greatest length of a list of a turn. Longer lists are handed over in parts.
const most = 256

// keepLists is how many lists of waiting commands are kept for later clients, keepSize the
// capacity of the largest that is kept.
const (
	keepLists = 1024
	keepSize  = 64
)

// Counter belongs to one loop. It allocates nothing once its lists have their size.
type Counter struct {
	turn     observe.Turn
	some     bool   // there is something to hand over
	handOver func() // hands turn to the observer
	panicked func(reason any, stack []byte)
	start    time.Time

	// kind is that of turn.Transports[0], if there is one: most clients of a loop use the
	// same transport.
	kind *via.Kind
	// newest is the latest command, while it has no answer. Most have one before the next
	// command comes.
	newest  command
	of      *session.Session // of newest; nil: there is none
	waiting map[*session.Session][]command
	free    [][]command

	delivered, written uint64 // when the last turn ended
}

// command that has no answer yet.
type command struct {
	id     uint32
	method observe.Message
	at     time.Duration // since start
}

// New returns a counter that hands over to turn. It calls panicked when turn panics.
func New(turn func(*observe.Turn), panicked func(reason any, stack []byte)) *Counter {
	c := &Counter{start: time.Now(), panicked: panicked, waiting: make(map[*session.Session][]command)}
	c.handOver = func() { turn(&c.turn) }
	return c
}

// End ends a turn. delivered and written are the counts of the hub and of the outboxes since
// the start.
func (c *Counter) End(delivered, written uint64) {
	if !c.some && delivered == c.delivered && written == c.written {
		return
	}
	c.turn.Deliveries, c.turn.Bytes = int(delivered-c.delivered), int(written-c.written)
	c.delivered, c.written = delivered, written
	c.flush()
}

// flush hands over what was counted, and begins anew.
func (c *Counter) flush() {
	contain.Do(c.handOver, c.panicked)
	t := &c.turn
	*t = observe.Turn{
		Transports: t.Transports[:0], Commands: t.Commands[:0],
		Disconnects: t.Disconnects[:0], Unsubscribes: t.Unsubscribes[:0], Pongs: t.Pongs[:0], Recoveries: t.Recoveries[:0],
		Lags: t.Lags[:0], Broadcasts: t.Broadcasts[:0],
	}
	c.some, c.kind = false, nil
}

// add appends to a list of the turn.
func add[T any](c *Counter, list *[]T, v T) {
	if len(*list) == most {
		c.flush()
	}
	*list = append(*list, v)
	c.some = true
}

// transport finds the counts of a kind of connections.
func (c *Counter) transport(k *via.Kind) *observe.Transport {
	list := c.turn.Transports
	if k == c.kind {
		return &list[0]
	}
	e := k.Framer.Encoding()
	for i := range list {
		if t := &list[i]; t.Name == k.Name && t.Encoding == e {
			return t
		}
	}
	add(c, &c.turn.Transports, observe.Transport{Name: k.Name, Encoding: e})
	last := len(c.turn.Transports) - 1
	if last == 0 {
		c.kind = k
	}
	return &c.turn.Transports[last]
}

// Accepted counts a new connection.
func (c *Counter) Accepted(k *via.Kind) { c.transport(k).Accepted++ }

// Received counts a command, and notes it if it will have an answer.
func (c *Counter) Received(s *session.Session, cmd *protocol.Command) {
	m := method(cmd)
	c.transport(s.Via()).Received[m].Messages++
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
	c.of, c.newest = s, command{cmd.ID, m, time.Since(c.start)}
}

// method of a command, as the session sees it: the first one, if there are several.
func method(cmd *protocol.Command) observe.Message {
	switch {
	case cmd.Connect != nil:
		return observe.MessageConnect
	case cmd.Ping != nil:
		return observe.MessageUnknown
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

// Replied counts the answer to a command, and what pushes say of the server.
func (c *Counter) Replied(s *session.Session, r *protocol.Reply) {
	switch {
	case r.ID != 0:
		cmd, ok := c.take(s, r.ID)
		if !ok {
			return
		}
		done := observe.Command{Method: cmd.method, Took: time.Since(c.start) - cmd.at}
		if r.Error != nil {
			done.Code = r.Error.Code
		}
		add(c, &c.turn.Commands, done)
	case r.Push != nil && r.Push.Unsubscribe != nil:
		c.unsubscribe(r.Push.Unsubscribe.Code)
	}
}

// take removes the oldest waiting command of an ID.
func (c *Counter) take(s *session.Session, id uint32) (cmd command, ok bool) {
	list := c.waiting[s]
	for i := range list {
		if list[i].id != id {
			continue
		}
		cmd = list[i]
		if list = slices.Delete(list, i, i+1); len(list) == 0 {
			c.forget(s, list)
		} else {
			c.waiting[s] = list
		}
		return cmd, true
	}
	if c.of == s && c.newest.id == id {
		c.of = nil
		return c.newest, true
	}
	return command{}, false
}

// forget removes the list of s, and keeps its memory for later.
func (c *Counter) forget(s *session.Session, list []command) {
	delete(c.waiting, s)
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

// Refused counts a limit that was reached.
func (c *Counter) Refused(l observe.Limit) {
	c.turn.Refusals[l]++
	c.some = true
}

// Subscribed counts a new subscription, Unsubscribed one that ended.
func (c *Counter) Subscribed() {
	c.turn.Subscribed[0]++
	c.some = true
}

// Unsubscribed: see Subscribed.
func (c *Counter) Unsubscribed() {
	c.turn.Unsubscribed[0]++
	c.some = true
}

// Closed counts the end of a connection, and forgets its waiting commands.
func (c *Counter) Closed(s *session.Session, d protocol.Disconnect) {
	if c.of == s {
		c.of = nil
	}
	if list := c.waiting[s]; list != nil {
		c.forget(s, list)
	}
	transport := s.Via().Name
	list := c.turn.Disconnects
	for i := range list {
		if e := &list[i]; e.Disconnect == d && e.Transport == transport {
			e.Count++
			return
		}
	}
	add(c, &c.turn.Disconnects, observe.Disconnect{Disconnect: d, Transport: transport, Count: 1})
}
