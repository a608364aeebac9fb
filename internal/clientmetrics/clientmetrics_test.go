package clientmetrics_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/testkit/proptest"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

type framer struct{ transport.Framer }

func (framer) Encoding() protocol.Encoding { return protocol.JSON }

// client is a clientmetrics.Client.
type client struct {
	via       *connkind.Kind
	agent     observe.Agent
	connected bool
}

func (c *client) Via() *connkind.Kind          { return c.via }
func (c *client) Agent() (observe.Agent, bool) { return c.agent, c.connected }

func newClient(name string) *client {
	return &client{via: connkind.New(&transport.Info{Name: name, Framer: framer{}})}
}

// clock is a clientmetrics.Clock that the test sets: time passes only between turns, unless end is
// set.
type clock struct{ now, end int64 }

func (c *clock) Now() int64   { return c.now }
func (c *clock) Clock() int64 { return max(c.now, c.end) }

// Cluster has clocks that agree.
func (c *clock) Cluster() int64 { return c.Clock() }

// commands, one of each method.
var commands = []protocol.Command{
	{Connect: &protocol.ConnectRequest{}}, {Ping: &protocol.PingRequest{}}, {Subscribe: &protocol.SubscribeRequest{}},
	{Unsubscribe: &protocol.UnsubscribeRequest{}}, {Publish: &protocol.PublishRequest{}}, {Presence: &protocol.PresenceRequest{}},
	{PresenceStats: &protocol.PresenceStatsRequest{}}, {History: &protocol.HistoryRequest{}}, {RPC: &protocol.RPCRequest{}},
	{Send: &protocol.SendRequest{}}, {Refresh: &protocol.RefreshRequest{}}, {SubRefresh: &protocol.SubRefreshRequest{}},
}

var methods = []observe.Message{
	observe.MessageConnect, observe.MessageUnknown, observe.MessageSubscribe, observe.MessageUnsubscribe, observe.MessagePublish,
	observe.MessagePresence, observe.MessagePresenceStats, observe.MessageHistory, observe.MessageRPC, observe.MessageSend,
	observe.MessageRefresh, observe.MessageSubRefresh,
}

type answer struct {
	method observe.Message
	space  string
	code   uint32
}

type moved struct {
	transport, space string
	message          observe.Message
}

// books are what was counted, whenever it was handed over.
type books struct {
	Answers                           map[answer]int
	Sent, Received                    map[moved]observe.Traffic
	Accepted, Connected, Disconnected map[string]int
	Closed, Unsubscribes              map[uint32]int
	Refusals                          [observe.NumLimits]int
	Subscribed, Unsubscribed          map[string]int
	Pongs                             map[observe.Pong]int
	Recoveries                        map[observe.Recovery]int
	Lags, Broadcasts, Writes          map[observe.Timing]int
	Filtered                          map[string]int
	Deliveries, Bytes                 int
}

func newBooks() *books {
	return &books{
		Answers: map[answer]int{}, Sent: map[moved]observe.Traffic{}, Received: map[moved]observe.Traffic{},
		Accepted: map[string]int{}, Connected: map[string]int{}, Disconnected: map[string]int{},
		Closed: map[uint32]int{}, Unsubscribes: map[uint32]int{}, Pongs: map[observe.Pong]int{},
		Recoveries: map[observe.Recovery]int{}, Lags: map[observe.Timing]int{}, Broadcasts: map[observe.Timing]int{},
		Writes: map[observe.Timing]int{}, Filtered: map[string]int{}, Subscribed: map[string]int{}, Unsubscribed: map[string]int{},
	}
}

// add adds n to an entry, unless n is 0.
func add[K comparable](m map[K]int, key K, n int) {
	if n != 0 {
		m[key] += n
	}
}

func move(m map[moved]observe.Traffic, key moved, messages, bytes int) {
	if messages != 0 {
		t := m[key]
		m[key] = observe.Traffic{Messages: t.Messages + messages, Bytes: t.Bytes + bytes}
	}
}

func agents(name string, a observe.Agent) string { return fmt.Sprint(name, " ", a) }

func (b *books) turn(t *observe.Turn) {
	for i := range t.Transports {
		k := &t.Transports[i]
		add(b.Accepted, k.Name, k.Accepted)
		for m := range k.Sent {
			key := moved{k.Name, k.Namespace, observe.Message(m)}
			move(b.Sent, key, k.Sent[m].Messages, k.Sent[m].Bytes)
			move(b.Received, key, k.Received[m].Messages, k.Received[m].Bytes)
		}
	}
	for _, c := range t.Commands {
		b.Answers[answer{c.Method, c.Namespace, c.Code}]++
	}
	for _, d := range t.Disconnects {
		b.Closed[d.Disconnect.Code] += d.Count
	}
	for _, u := range t.Unsubscribes {
		b.Unsubscribes[u.Code] += u.Count
	}
	for _, e := range t.Connections {
		add(b.Connected, agents(e.Transport, e.Agent), e.Connected)
		add(b.Disconnected, agents(e.Transport, e.Agent), e.Disconnected)
	}
	for _, e := range t.Subscriptions {
		add(b.Subscribed, agents(e.Namespace, e.Agent), e.Subscribed)
		add(b.Unsubscribed, agents(e.Namespace, e.Agent), e.Unsubscribed)
	}
	for l, n := range t.Refusals {
		b.Refusals[l] += n
	}
	for _, p := range t.Pongs {
		b.Pongs[p]++
	}
	for _, r := range t.Recoveries {
		b.Recoveries[r]++
	}
	for _, e := range []struct {
		books map[observe.Timing]int
		list  []observe.Timing
	}{{b.Lags, t.Lags}, {b.Broadcasts, t.Broadcasts}, {b.Writes, t.Writes}} {
		for _, l := range e.list {
			e.books[observe.Timing{Namespace: l.Namespace, Took: l.Took}] += l.Count
		}
	}
	b.Deliveries += t.Deliveries
	b.Bytes += t.Bytes
	for _, f := range t.Filtered {
		b.Filtered[f.Namespace] += f.Count
	}
}

// peer is a client with its own books of what it waits for.
type peer struct {
	s       *client
	via     string
	waiting []waiting
}

type waiting struct {
	id     uint32
	method observe.Message
	space  string
}

// space is the namespace of a channel.
func space(ch string) string {
	before, _, found := strings.Cut(ch, ":")
	if !found {
		return ""
	}
	return before
}

// some returns a channel.
func (w *world) some() string { return []string{"x", "chat:1", "chat:2", "news:1"}[w.IntN(4)] }

// world is a counter, its clients, and the books that it should make.
type world struct {
	*rand.Rand
	c                  *clientmetrics.Counter
	clock              *clock
	want               *books
	peers              []*peer
	kinds              map[string]*connkind.Kind
	delivered, written uint64
}

// Whatever clients do, in whatever order, is counted once, under the right names: also if
// answers overtake each other, IDs come twice, and connections end in between. In the end as
// many clients have gone as have come, under each name.
func TestCounterProperty(t *testing.T) {
	for seed := range uint64(proptest.Rounds(20)) {
		got, w := newBooks(), &world{Rand: rand.New(rand.NewPCG(seed, 1)), clock: &clock{now: 1e15}, want: newBooks(), kinds: map[string]*connkind.Kind{}}
		w.c = clientmetrics.New(&observe.Observer{Turn: got.turn, Namespace: space}, w.clock, func(any, []byte) { t.Error("a panic") })
		for range 3000 {
			w.step()
		}
		for len(w.peers) > 0 {
			w.close(0, 3000)
		}
		w.c.End(w.delivered, w.written)
		w.want.Deliveries, w.want.Bytes = int(w.delivered), int(w.written)
		if diff := cmp.Diff(w.want, got, cmp.AllowUnexported(answer{}, moved{})); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
		if diff := cmp.Diff(got.Connected, got.Disconnected); diff != "" {
			t.Fatalf("seed %d: left over:\n%s", seed, diff)
		}
	}
}

func (w *world) step() {
	if len(w.peers) == 0 || w.IntN(20) == 0 {
		w.accept()
	}
	i := w.IntN(len(w.peers))
	p := w.peers[i]
	switch w.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		p.command(w)
	case 6, 7, 8, 9, 10:
		p.answer(w)
	case 11:
		code, ch := uint32(2000+w.IntN(400)), w.some()
		w.c.Replied(p.s, &protocol.Reply{Push: &protocol.Push{Channel: ch, Unsubscribe: &protocol.Unsubscribe{Code: code}}}, 7)
		w.want.Unsubscribes[code]++
		move(w.want.Sent, moved{p.via, space(ch), observe.MessagePushUnsubscribe}, 1, 7)
	case 12:
		l := observe.Limit(w.IntN(int(observe.NumLimits)))
		w.c.Refused(l)
		w.want.Refusals[l]++
	case 13:
		w.close(i, uint32(3000+w.IntN(400)))
	case 14:
		ch := w.some()
		w.c.Subscribed(p.s, ch)
		w.c.Unsubscribed(p.s, ch)
		w.want.Subscribed[agents(space(ch), p.s.agent)]++
		w.want.Unsubscribed[agents(space(ch), p.s.agent)]++
	case 15:
		w.delivered += uint64(w.IntN(3))
		w.written += uint64(w.IntN(3))
		if w.IntN(4) == 0 { // else the turn is long
			w.c.End(w.delivered, w.written)
			w.clock.now += int64(time.Millisecond)
		}
	case 16:
		ago := int64(w.IntN(5))
		w.c.Pong(p.s, w.clock.now-ago)
		w.want.Pongs[observe.Pong{Transport: p.via, Took: time.Duration(ago)}]++
	case 17:
		ch := w.some()
		r := observe.Recovery{Namespace: space(ch), Recovered: w.IntN(2) == 0, Publications: w.IntN(3)}
		w.c.Recovered(ch, r.Recovered, r.Publications)
		w.want.Recoveries[r]++
	default:
		p.broadcast(w)
	}
}

func (w *world) accept() {
	name := []string{"websocket", "sse", "other"}[w.IntN(3)]
	p := &peer{via: name, s: newClient(name)}
	if k := w.kinds[name]; k != nil {
		p.s.via = k
	}
	w.kinds[name] = p.s.via
	w.peers = append(w.peers, p)
	w.c.Accepted(p.s.via)
	w.want.Accepted[name]++
	if w.IntN(4) == 0 {
		return // never connects
	}
	p.s.agent, p.s.connected = observe.Agent(w.IntN(256)), true
	w.c.Connected(p.s)
	w.want.Connected[agents(name, p.s.agent)]++
}

func (w *world) close(i int, code uint32) {
	p := w.peers[i]
	w.c.Closed(p.s, protocol.Disconnect{Code: code})
	w.want.Closed[code]++
	if p.s.connected {
		w.want.Disconnected[agents(p.via, p.s.agent)]++
	}
	w.peers = append(w.peers[:i], w.peers[i+1:]...)
}

// broadcast counts what a hub does with a publication.
func (p *peer) broadcast(w *world) {
	lag, messages := w.IntN(3), w.IntN(5)
	ch := w.some()
	pub, old := &channel.Publication{Time: w.clock.now/int64(time.Millisecond) - int64(lag)}, new(channel.Publication)
	w.c.Taken(ch, pub)
	w.c.Taken(ch, old) // has no time
	w.c.Sent(ch, hub.KindPublication, p.s.via.Framer, messages, 3*messages)
	w.c.Sent(ch, hub.KindJoin, p.s.via.Framer, 1, 2)
	w.c.Filtered(ch, 2)
	w.c.Done(ch, w.clock.now, pub)
	w.c.Done(ch, w.clock.now, old)
	took := observe.Timing{Namespace: space(ch), Took: time.Duration(lag) * time.Millisecond}
	w.want.Lags[took]++
	w.want.Writes[took]++
	move(w.want.Sent, moved{p.via, space(ch), observe.MessagePushPublication}, messages, 3*messages)
	move(w.want.Sent, moved{p.via, space(ch), observe.MessagePushJoin}, 1, 2)
	w.want.Filtered[space(ch)] += 2
	w.want.Broadcasts[observe.Timing{Namespace: space(ch)}] += 2
}

func (p *peer) command(w *world) {
	n, text := w.IntN(len(commands)+2), []byte("text\n")
	switch n {
	case len(commands):
		w.c.Received(p.s, &protocol.Command{}, text)
		move(w.want.Received, moved{p.via, "", observe.MessageClientPong}, 1, 4)
		return
	case len(commands) + 1:
		w.c.Malformed(p.s, text[:3])
		move(w.want.Received, moved{p.via, "", observe.MessageUnknown}, 1, 3)
		return
	}
	cmd, m, in := commands[n], methods[n], ""
	cmd.ID = 1 + w.Uint32N(100)
	if ch := w.some(); cmd.Publish != nil {
		cmd.Publish, in = &protocol.PublishRequest{Channel: ch}, space(ch)
	}
	w.c.Received(p.s, &cmd, text)
	move(w.want.Received, moved{p.via, in, m}, 1, 4)
	if m != observe.MessageSend {
		p.waiting = append(p.waiting, waiting{cmd.ID, m, in})
	}
}

func (p *peer) answer(w *world) {
	if len(p.waiting) == 0 {
		w.c.Replied(p.s, &protocol.Reply{ID: 1000}, 5) // to nothing
		w.c.Replied(p.s, &protocol.Reply{}, 2)         // a ping
		move(w.want.Sent, moved{p.via, "", observe.MessageUnknown}, 1, 5)
		move(w.want.Sent, moved{p.via, "", observe.MessageServerPing}, 1, 2)
		return
	}
	i := 0
	if w.IntN(2) == 0 {
		i = w.IntN(len(p.waiting))
	}
	id := p.waiting[i].id
	for i = 0; p.waiting[i].id != id; i++ { // the first one of an ID is meant
	}
	reply := &protocol.Reply{ID: id}
	if w.IntN(2) == 0 {
		reply.Error = &protocol.Error{Code: 100 + w.Uint32N(5)}
		w.want.Answers[answer{p.waiting[i].method, p.waiting[i].space, reply.Error.Code}]++
	} else {
		w.want.Answers[answer{p.waiting[i].method, p.waiting[i].space, 0}]++
	}
	move(w.want.Sent, moved{p.via, p.waiting[i].space, p.waiting[i].method}, 1, 6)
	p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
	w.c.Replied(p.s, reply, 6)
}

// A turn in which nothing happened is not handed over, and a long one in parts.
func TestTurns(t *testing.T) {
	calls, commands, longest := 0, 0, 0
	c := clientmetrics.New(&observe.Observer{Turn: func(t *observe.Turn) {
		calls++
		commands += len(t.Commands)
		longest = max(longest, len(t.Commands))
	}}, new(clock), nil)
	c.End(0, 0)
	if calls != 0 {
		t.Errorf("%d calls for nothing", calls)
	}
	s := newClient("x")
	for id := range uint32(1000) {
		c.Received(s, &protocol.Command{ID: id + 1, RPC: &protocol.RPCRequest{}}, nil)
		c.Replied(s, &protocol.Reply{ID: id + 1}, 0)
	}
	c.End(0, 0)
	if calls != 4 || commands != 1000 || longest != 256 {
		t.Errorf("%d commands in %d calls, of up to %d", commands, calls, longest)
	}
	c.End(1, 0)
	c.End(1, 1)
	c.End(1, 1)
	if calls != 6 {
		t.Errorf("%d calls, want 6", calls)
	}
}

// What is handed over was forgotten, also if the observer panicked.
func TestPanic(t *testing.T) {
	panics, refused := 0, 0
	c := clientmetrics.New(&observe.Observer{Turn: func(t *observe.Turn) {
		if refused += t.Refusals[observe.LimitQueue]; panics == 0 {
			panic("of the test")
		}
	}}, new(clock), func(reason any, _ []byte) {
		if panics++; reason != "of the test" {
			t.Errorf("told of %v", reason)
		}
	})
	for range 3 {
		c.Refused(observe.LimitQueue)
		c.End(0, 0)
	}
	if panics != 1 || refused != 3 {
		t.Errorf("%d panics, %d refusals", panics, refused)
	}
}

// A broadcast ends with the turn. What belongs to one turn shares an element.
func TestBroadcasts(t *testing.T) {
	var got, writes []observe.Timing
	at := &clock{now: 1e6 + 1000}
	pub := &channel.Publication{Time: 1}
	c := clientmetrics.New(&observe.Observer{Turn: func(t *observe.Turn) { got, writes = append(got, t.Broadcasts...), append(writes, t.Writes...) }}, at, nil)
	for range 3 {
		c.Done("x", 1e6+900, pub)
	}
	c.Done("x", 1e6+1000, pub)
	c.Done("x", 1e6+1000, &channel.Publication{Time: 5}) // of a clock that is ahead
	at.end = 1e6 + 1500
	c.End(0, 0)
	c.End(0, 0)
	if want := []observe.Timing{{Took: 600, Count: 3}, {Took: 500, Count: 2}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if want := []observe.Timing{{Took: 1500, Count: 4}, {Count: 1}}; !slices.Equal(writes, want) {
		t.Errorf("writes %v, want %v", writes, want)
	}
}

// Steady work allocates nothing, whether commands are answered at once or wait.
func TestCounterAllocations(t *testing.T) {
	c := clientmetrics.New(&observe.Observer{Turn: func(*observe.Turn) {}, Namespace: func(ch string) string { return ch[:1] }}, new(clock), nil)
	clients := []*client{newClient("x"), newClient("y")}
	cmd, reply, pub := &protocol.Command{RPC: &protocol.RPCRequest{}}, &protocol.Reply{}, &channel.Publication{Time: 1}
	if got := testing.AllocsPerRun(1000, func() {
		for id := range uint32(10) {
			for _, s := range clients {
				cmd.ID = id + 1
				c.Received(s, cmd, nil)
			}
		}
		for id := range uint32(10) {
			for _, s := range clients {
				reply.ID = 10 - id
				c.Replied(s, reply, 1)
			}
		}
		c.Connected(clients[0])
		c.Subscribed(clients[0], "chat:1")
		c.Recovered("chat:1", true, 1)
		c.Pong(clients[0], 0)
		c.Taken("chat:1", pub)
		c.Sent("chat:1", hub.KindPublication, clients[1].via.Framer, 1, 1)
		c.Done("chat:1", 1, pub)
		c.Filtered("news:1", 1)
		c.Closed(clients[0], protocol.DisconnectSlow)
		c.End(0, 0)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
