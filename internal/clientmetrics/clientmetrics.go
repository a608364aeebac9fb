// Package clientmetrics counts the messages and actions of a loop's clients for an observer.
package clientmetrics

import (
	"slices"
	"time"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// most is the greatest length of a list of a turn; longer lists are handed over in parts.
const most = 256

// The lists of waiting commands that are kept for later clients, and the capacity of the largest that is kept.
const (
	keepLists = 1024
	keepSize  = 64
)

// Client is one of the loop, always in the same pointer.
type Client interface {
	Via() *connkind.Kind
	Agent() (a observe.Agent, connected bool)
}

// Clock of the loop, in nanoseconds since the Unix epoch. Steps of the system's clock do not move Now, the begin of the
// turn, and Clock, the present.
type Clock interface {
	Now() int64
	Clock() int64
	// Cluster is the time by the clocks of the cluster, which publications have.
	Cluster() int64
}

// Counter belongs to one loop. It allocates nothing once its lists have their size. The methods of nil do nothing.
type Counter struct {
	turn     observe.Turn
	some     bool   // there is something to hand over
	handOver func() // hands turn to the observer
	panicked func(reason any, stack []byte)
	clock    Clock
	observer *observe.Observer
	// channel is the latest whose namespace was asked for, and space the answer.
	channel, space string

	// framer is the framer of turn.Transports[0]: most clients of a loop use the same transport.
	framer *connkind.Framer
	// newest is the latest command, while it has no answer. Most have one before the next
	// command comes.
	newest  command
	of      Client // of newest; nil: there is none
	waiting map[Client][]command
	free    [][]command
	// Took is here the time when they began, for writes by the clocks of the cluster.
	broadcasts, writes []observe.Timing
	// now is the time by these clocks when the turn first took a publication; 0: it took none.
	now int64

	delivered, written uint64 // when the last turn ended
}

type command struct {
	id     uint32
	method observe.Message
	at     int64
	space  string
}

// New returns a counter that hands over to o.Turn, and calls panicked when that panics.
func New(o *observe.Observer, clock Clock, panicked func(reason any, stack []byte)) *Counter {
	c := &Counter{observer: o, clock: clock, panicked: panicked, waiting: make(map[Client][]command)}
	c.handOver = func() { o.Turn(&c.turn) }
	return c
}

// namespaceOf remembers the last answer, because successive calls are mostly about one channel.
func (c *Counter) namespaceOf(ch string) string {
	if c.observer.Namespace == nil || ch == "" {
		return ""
	}
	if ch != c.channel {
		c.channel, c.space = ch, c.observer.Namespace(ch)
	}
	return c.space
}

// End ends a turn. delivered and written are the counts of the hub and of the queues since the start.
func (c *Counter) End(delivered, written uint64) {
	if c.now = 0; len(c.broadcasts) > 0 {
		c.endBroadcasts()
	}
	if !c.some && delivered == c.delivered && written == c.written {
		return
	}
	c.turn.Deliveries, c.turn.Bytes = int(delivered-c.delivered), int(written-c.written)
	c.delivered, c.written = delivered, written
	c.flush()
}

func (c *Counter) endBroadcasts() {
	now := c.clock.Clock()
	for _, b := range c.broadcasts {
		b.Took = time.Duration(now) - b.Took
		add(c, &c.turn.Broadcasts, b)
	}
	c.broadcasts = c.broadcasts[:0]
	if len(c.writes) == 0 {
		return
	}
	now = c.clock.Cluster()
	for _, w := range c.writes {
		w.Took = max(time.Duration(now)-w.Took, 0)
		add(c, &c.turn.Writes, w)
	}
	c.writes = c.writes[:0]
}

func (c *Counter) flush() {
	guard.Do(c.handOver, c.panicked)
	t := &c.turn
	*t = observe.Turn{
		Transports: t.Transports[:0], Commands: t.Commands[:0], Pongs: t.Pongs[:0], Recoveries: t.Recoveries[:0],
		Disconnects: t.Disconnects[:0], Unsubscribes: t.Unsubscribes[:0], Lags: t.Lags[:0], Broadcasts: t.Broadcasts[:0],
		Writes: t.Writes[:0], Connections: t.Connections[:0], Subscriptions: t.Subscriptions[:0], Filtered: t.Filtered[:0],
	}
	c.some, c.framer, c.channel = false, nil, ""
}

func add[T any](c *Counter, list *[]T, v T) {
	if len(*list) == most {
		c.flush()
	}
	*list = append(*list, v)
	c.some = true
}

func count(c *Counter, list *[]observe.Timing, space string, took time.Duration, n int) {
	if last := len(*list) - 1; last >= 0 && (*list)[last].Took == took && (*list)[last].Namespace == space {
		(*list)[last].Count += n
		return
	}
	add(c, list, observe.Timing{Namespace: space, Took: took, Count: n})
}

func grow(t *observe.Traffic, messages, bytes int) {
	t.Messages += messages
	t.Bytes += bytes
}

func (c *Counter) transport(f *connkind.Framer, space string) *observe.Transport {
	list := c.turn.Transports
	if f == c.framer && space == list[0].Namespace {
		return &list[0]
	}
	e := f.Encoding()
	for i := range list {
		if t := &list[i]; t.Name == f.Transport && t.Encoding == e && t.Namespace == space {
			return t
		}
	}
	if len(list) == most {
		c.flush()
	}
	last := len(c.turn.Transports)
	if last == 0 {
		c.framer = f
	}
	c.turn.Transports = slices.Grow(c.turn.Transports, 1)[:last+1]
	t := &c.turn.Transports[last]
	*t = observe.Transport{Name: f.Transport, Encoding: e, Namespace: space} // it is large, so it is made in its place
	c.some = true
	return t
}

// Accepted counts a new connection.
func (c *Counter) Accepted(k *connkind.Kind) {
	if c != nil {
		c.transport(k.Framer, "").Accepted++
	}
}

// Agent returns the client's software as a connect request, and the application by labels, name it.
func (c *Counter) Agent(req *protocol.ConnectRequest, labels map[string]string) (a observe.Agent) {
	if c == nil {
		return 0
	}
	return c.observer.NewAgent(req.Name, req.Version, labels)
}

// Connected counts a client that has connected.
func (c *Counter) Connected(of Client) {
	if c != nil {
		a, _ := of.Agent()
		c.connections(of, a).Connected++
	}
}

func (c *Counter) connections(of Client, a observe.Agent) *observe.Connections {
	kind := of.Via()
	for i := range c.turn.Connections {
		if e := &c.turn.Connections[i]; e.Transport == kind.Name && e.Agent == a && e.HTTP == kind.HTTP {
			return e
		}
	}
	add(c, &c.turn.Connections, observe.Connections{Transport: kind.Name, HTTP: kind.HTTP, Agent: a})
	return &c.turn.Connections[len(c.turn.Connections)-1]
}

func (c *Counter) subscriptions(of Client, ch string) *observe.Subscriptions {
	a, _ := of.Agent()
	space := c.namespaceOf(ch)
	for i := range c.turn.Subscriptions {
		if e := &c.turn.Subscriptions[i]; e.Namespace == space && e.Agent == a {
			return e
		}
	}
	add(c, &c.turn.Subscriptions, observe.Subscriptions{Namespace: space, Agent: a})
	return &c.turn.Subscriptions[len(c.turn.Subscriptions)-1]
}

// Closed counts the end of a connection, and forgets its waiting commands.
func (c *Counter) Closed(of Client, d protocol.Disconnect) {
	if c == nil {
		return
	}
	if c.of == of {
		c.of = nil
	}
	if list := c.waiting[of]; list != nil {
		c.forget(of, list)
	}
	if a, connected := of.Agent(); connected {
		c.connections(of, a).Disconnected++
	}
	transport := of.Via().Name
	list := c.turn.Disconnects
	for i := range list {
		if e := &list[i]; e.Disconnect == d && e.Transport == transport {
			e.Count++
			return
		}
	}
	add(c, &c.turn.Disconnects, observe.Disconnect{Disconnect: d, Transport: transport, Count: 1})
}

// Subscribed counts a new subscription.
func (c *Counter) Subscribed(of Client, ch string) {
	if c != nil {
		c.subscriptions(of, ch).Subscribed++
	}
}

// Unsubscribed counts the end of a subscription that Subscribed counted.
func (c *Counter) Unsubscribed(of Client, ch string) {
	if c != nil {
		c.subscriptions(of, ch).Unsubscribed++
	}
}

// Recovered counts the attempt of a subscription to recover.
func (c *Counter) Recovered(ch string, ok bool, publications int) {
	if c != nil {
		add(c, &c.turn.Recoveries, observe.Recovery{Namespace: c.namespaceOf(ch), Recovered: ok, Publications: publications})
	}
}

// Pong counts the answer to the ping that was sent at a time.
func (c *Counter) Pong(of Client, at int64) {
	if c != nil {
		add(c, &c.turn.Pongs, observe.Pong{Transport: of.Via().Name, Took: time.Duration(c.clock.Now() - at)})
	}
}

// Refused counts a limit that was reached.
func (c *Counter) Refused(l observe.Limit) {
	if c != nil {
		c.turn.Refusals[l]++
		c.some = true
	}
}
