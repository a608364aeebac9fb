package counting_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/internal/counting"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

type framer struct{ transport.Framer }

func (framer) Encoding() protocol.Encoding { return protocol.JSON }

func newSession(name string) *session.Session {
	s := new(session.Session)
	s.Init(nil, &session.Config{}, nil, &via.Kind{Name: name, Framer: framer{}})
	return s
}

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
	code   uint32
}

type received struct {
	transport string
	method    observe.Message
}

// books are what was counted, whenever it was handed over.
type books struct {
	Answers                                     map[answer]int
	Received                                    map[received]int
	Accepted                                    map[string]int
	Closed                                      map[uint32]int
	Unsubscribes                                map[uint32]int
	Refusals                                    [observe.NumLimits]int
	Subscribed, Unsubscribed, Deliveries, Bytes int
}

func newBooks() *books {
	return &books{
		Answers: map[answer]int{}, Received: map[received]int{}, Accepted: map[string]int{}, Closed: map[uint32]int{},
		Unsubscribes: map[uint32]int{},
	}
}

func (b *books) turn(t *observe.Turn) {
	for i := range t.Transports {
		k := &t.Transports[i]
		b.Accepted[k.Name] += k.Accepted
		for m, n := range k.Received {
			b.Received[received{k.Name, observe.Message(m)}] += n.Messages
		}
	}
	for _, c := range t.Commands {
		b.Answers[answer{c.Method, c.Code}]++
	}
	for _, d := range t.Disconnects {
		b.Closed[d.Disconnect.Code] += d.Count
	}
	for _, u := range t.Unsubscribes {
		b.Unsubscribes[u.Code] += u.Count
	}
	for l, n := range t.Refusals {
		b.Refusals[l] += n
	}
	b.Subscribed += t.Subscribed[0]
	b.Unsubscribed += t.Unsubscribed[0]
	b.Deliveries += t.Deliveries
	b.Bytes += t.Bytes
}

// peer is a client with its own books of what it waits for.
type peer struct {
	s       *session.Session
	via     string
	waiting []waiting
}

type waiting struct {
	id     uint32
	method observe.Message
}

// Whatever clients do, in whatever order, is counted once, under the right method: also if
// answers overtake each other, IDs come twice, and connections end in between.
func TestCounterProperty(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		got, want := newBooks(), newBooks()
		c := counting.New(got.turn, func(any, []byte) { t.Error("a panic") })
		var (
			peers              []*peer
			delivered, written uint64
		)
		for range 3000 {
			if len(peers) == 0 || r.IntN(20) == 0 {
				p := &peer{via: []string{"websocket", "sse", "other"}[r.IntN(3)]}
				p.s = newSession(p.via)
				peers = append(peers, p)
				c.Accepted(p.s.Via())
				want.Accepted[p.via]++
			}
			i := r.IntN(len(peers))
			p := peers[i]
			switch r.IntN(16) {
			case 0, 1, 2, 3, 4, 5:
				p.command(r, c, want)
			case 6, 7, 8, 9, 10:
				p.answer(r, c, want)
			case 11:
				code := uint32(2000 + r.IntN(400))
				c.Replied(p.s, &protocol.Reply{Push: &protocol.Push{Unsubscribe: &protocol.Unsubscribe{Code: code}}})
				want.Unsubscribes[code]++
			case 12:
				l := observe.Limit(r.IntN(int(observe.NumLimits)))
				c.Refused(l)
				want.Refusals[l]++
			case 13:
				code := uint32(3000 + r.IntN(400))
				c.Closed(p.s, protocol.Disconnect{Code: code})
				want.Closed[code]++
				peers = append(peers[:i], peers[i+1:]...)
			case 14:
				c.Subscribed()
				c.Unsubscribed()
				want.Subscribed++
				want.Unsubscribed++
			case 15:
				delivered += uint64(r.IntN(3))
				written += uint64(r.IntN(3))
				if r.IntN(4) == 0 { // else the turn is long
					c.End(delivered, written)
				}
			}
		}
		c.End(delivered, written)
		want.Deliveries, want.Bytes = int(delivered), int(written)
		zero := func(_ received, n int) bool { return n == 0 }
		maps.DeleteFunc(got.Received, zero)
		maps.DeleteFunc(got.Accepted, func(_ string, n int) bool { return n == 0 })
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{}, received{})); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func (p *peer) command(r *rand.Rand, c *counting.Counter, want *books) {
	n := r.IntN(len(commands) + 1)
	if n == len(commands) {
		c.Received(p.s, &protocol.Command{})
		want.Received[received{p.via, observe.MessageClientPong}]++
		return
	}
	cmd, m := commands[n], methods[n]
	cmd.ID = 1 + r.Uint32N(100)
	c.Received(p.s, &cmd)
	want.Received[received{p.via, m}]++
	if m != observe.MessageSend {
		p.waiting = append(p.waiting, waiting{cmd.ID, m})
	}
}

func (p *peer) answer(r *rand.Rand, c *counting.Counter, want *books) {
	if len(p.waiting) == 0 {
		c.Replied(p.s, &protocol.Reply{ID: 1000}) // to nothing
		c.Replied(p.s, &protocol.Reply{})         // a ping
		return
	}
	i := 0
	if r.IntN(2) == 0 {
		i = r.IntN(len(p.waiting))
	}
	id := p.waiting[i].id
	for i = 0; p.waiting[i].id != id; i++ { // the first one of an ID is meant
	}
	reply := &protocol.Reply{ID: id}
	if r.IntN(2) == 0 {
		reply.Error = &protocol.Error{Code: 100 + r.Uint32N(5)}
		want.Answers[answer{p.waiting[i].method, reply.Error.Code}]++
	} else {
		want.Answers[answer{p.waiting[i].method, 0}]++
	}
	p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
	c.Replied(p.s, reply)
}

// A turn in which nothing happened is not handed over, and a long one in parts.
func TestTurns(t *testing.T) {
	calls, commands, longest := 0, 0, 0
	c := counting.New(func(t *observe.Turn) {
		calls++
		commands += len(t.Commands)
		longest = max(longest, len(t.Commands))
	}, nil)
	c.End(0, 0)
	if calls != 0 {
		t.Errorf("%d calls for nothing", calls)
	}
	s := newSession("x")
	for id := range uint32(1000) {
		c.Received(s, &protocol.Command{ID: id + 1, RPC: &protocol.RPCRequest{}})
		c.Replied(s, &protocol.Reply{ID: id + 1})
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
	c := counting.New(func(t *observe.Turn) {
		if refused += t.Refusals[observe.LimitQueue]; panics == 0 {
			panic("of the test")
		}
	}, func(reason any, _ []byte) {
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

// Steady work allocates nothing, whether commands are answered at once or wait.
func TestCounterAllocations(t *testing.T) {
	c := counting.New(func(*observe.Turn) {}, nil)
	sessions := []*session.Session{newSession("x"), newSession("y")}
	cmd, reply := &protocol.Command{RPC: &protocol.RPCRequest{}}, &protocol.Reply{}
	if got := testing.AllocsPerRun(1000, func() {
		for id := range uint32(10) {
			for _, s := range sessions {
				cmd.ID = id + 1
				c.Received(s, cmd)
			}
		}
		for id := range uint32(10) {
			for _, s := range sessions {
				reply.ID = 10 - id
				c.Replied(s, reply)
			}
		}
		c.Subscribed()
		c.Closed(sessions[0], protocol.DisconnectSlow)
		c.End(0, 0)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
