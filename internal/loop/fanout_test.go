package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// The way of a publication, whole: the hub delivers it to real sessions, which
// queue its frame, and at the end of the turn flush it to their connections.

// listener is a connected client whose connection takes everything at once. Like
// the clients of a node it is all one piece of memory.
type listener struct {
	session session.Session
	id      string
	timer   Timer
	loop    *Loop
	pool    *sendqueue.Pool
	todo    []effect.Effect
	bytes   int
	closed  protocol.Disconnect
}

func (c *listener) ID() string                                     { return c.id }
func (c *listener) Wall() int64                                    { return c.loop.Now() }
func (c *listener) Now() int64                                     { return c.loop.Now() }
func (c *listener) Phase(n int64) int64                            { return n / 2 }
func (c *listener) Refused(observe.Limit, string)                  {}
func (c *listener) Explain(string, string, error)                  {}
func (c *listener) Counts() *clientmetrics.Counter                 { return nil }
func (c *listener) Schedule(at int64)                              { c.loop.Schedule(c, at) }
func (c *listener) Dirty()                                         { c.loop.Dirty(&c.session) }
func (c *listener) Pool() *sendqueue.Pool                          { return c.pool }
func (c *listener) Scratch() *session.Scratch                      { return new(session.Scratch) }
func (c *listener) Do(e effect.Effect) bool                        { c.todo = append(c.todo, e); return false }
func (c *listener) Join(b *session.Subscription)                   { c.loop.Hub().Add(b.Channel(), b) }
func (c *listener) Part(b *session.Subscription)                   { c.loop.Hub().Remove(b) }
func (c *listener) Finish(b *session.Subscription)                 { c.loop.Hub().Finish(b) }
func (c *listener) Register(*protocol.ConnectRequest) bool         { return true }
func (c *listener) Pong(int64)                                     {}
func (c *listener) Note(inspect.Kind, string, uint32, int, string) {}
func (c *listener) Hold(bool)                                      {}
func (c *listener) Unregister()                                    {}
func (c *listener) SessionID() string                              { return "" }
func (c *listener) Closed(d protocol.Disconnect)                   { c.closed = d }
func (c *listener) Timer() *Timer                                  { return &c.timer }
func (c *listener) Tick()                                          { c.session.Tick() }
func (c *listener) Close(protocol.Disconnect, [][]byte)            {}
func (c *listener) Pause(bool)                                     {}

func (c *listener) Allowance() *int                          { return new(1) }
func (c *listener) Again()                                   { c.loop.Again(&c.session) }
func (c *listener) Gone()                                    {}
func (c *listener) Feed(*session.Subscription, channel.Feed) {}

func (c *listener) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
	}
	c.bytes += n
	return n, nil
}

// bare is a framer without an envelope.
type bare struct{ encoding protocol.Encoding }

func (f *bare) Encoding() protocol.Encoding { return f.encoding }
func (f *bare) Headroom() int               { return 0 }
func (f *bare) Costly() bool                { return false }
func (f *bare) Frame(buf []byte) []byte     { return buf }

var listenerConfig = &session.Config{
	PingInterval: 25 * time.Second, PongTimeout: 10 * time.Second, StaleDelay: 15 * time.Second,
	PresenceInterval: 25 * time.Second, Rounds: new(hub.Rounds),
	ChannelLimit: 128, ChannelMaxLength: 255, QueueMaxSize: 1 << 20, CommandLimit: 64, PendingMaxSize: 1 << 20,
	Handles: session.Handles{Subscribe: true},
}

// fanout is a loop with n listeners of one channel.
type fanout struct {
	loop      *Loop
	listeners []*listener
	offset    uint64
	data      []byte
}

func newFanout(tb testing.TB, n int, f transport.Framer, opts channel.SubscribeOptions) *fanout {
	tb.Helper()
	o := &fanout{loop: New(), data: []byte(`{"text":"a message of the usual size, which is about a hundred bytes","n":12345}`)}
	pool, kind := new(sendqueue.Pool), connkind.New(&transport.Info{Framer: f})
	for i := range n {
		c := &listener{id: fmt.Sprint(i), loop: o.loop, pool: pool}
		o.listeners = append(o.listeners, c)
		c.session.Init(c, listenerConfig, c, kind)
		for _, cmd := range []*protocol.Command{
			{ID: 1, Connect: &protocol.ConnectRequest{}},
			{ID: 2, Subscribe: &protocol.SubscribeRequest{Channel: "ch"}},
		} {
			frame, err := codec.ForClient(f.Encoding()).AppendCommand(nil, cmd)
			if err != nil {
				tb.Fatal(err)
			}
			c.session.Receive(frame)
			c.work(&opts)
		}
	}
	o.loop.turn(nil)
	before := o.listeners[0].bytes
	o.publish()
	for _, c := range o.listeners {
		if c.bytes < before+len(o.data) || c.closed.Code != 0 {
			tb.Fatalf("a client got %d bytes, of them %d before the publication; %v", c.bytes, before, c.closed)
		}
	}
	return o
}

// work does the session's effects, as an application that allows everything.
func (c *listener) work(opts *channel.SubscribeOptions) {
	for len(c.todo) > 0 {
		e := c.todo[0]
		c.todo = c.todo[1:]
		switch e := e.(type) {
		case *effect.Connecting:
			e.Identity = effect.Identity{Known: true, User: c.id}
		case *effect.Subscribing:
			e.Options = *opts
		case *effect.Attach:
			e.Items[0].Top.Epoch = "epoch"
		default:
			continue
		}
		c.session.Complete(e)
	}
}

// publish is the turn of one publication.
func (o *fanout) publish() {
	o.offset++
	m := &hub.Message{
		Channel: "ch", Epoch: "epoch",
		Pub: &channel.Publication{Data: o.data, Offset: o.offset, Time: o.loop.Now() / 1e6},
	}
	batch := [1]item{{msg: m}}
	o.loop.turn(batch[:])
	for o.loop.busy {
		o.loop.turn(nil)
	}
}

var fanouts = []struct {
	name   string
	framer transport.Framer
	opts   channel.SubscribeOptions
}{
	{"json/plain", &bare{protocol.JSON}, channel.SubscribeOptions{}},
	{"json/recoverable", &bare{protocol.JSON}, channel.SubscribeOptions{Recoverable: true}},
	{"protobuf/plain", &bare{protocol.Protobuf}, channel.SubscribeOptions{}},
	{"protobuf/recoverable", &bare{protocol.Protobuf}, channel.SubscribeOptions{Recoverable: true}},
}

func BenchmarkFanout1000(b *testing.B) {
	const subscribers = 1000
	for _, bb := range fanouts {
		b.Run(bb.name, func(b *testing.B) {
			o := newFanout(b, subscribers, bb.framer, bb.opts)
			b.ReportAllocs()
			for b.Loop() {
				o.publish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/subscribers, "ns/subscriber")
		})
	}
}

// What a turn allocates does not depend on the number of subscribers.
func TestFanoutAllocBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	// The publication, the message, the frame.
	const budget = 3
	for _, tt := range fanouts {
		for _, n := range []int{1, 1000} {
			o := newFanout(t, n, tt.framer, tt.opts)
			if got := testing.AllocsPerRun(100, o.publish); got > budget {
				t.Errorf("%s to %d subscribers: %v allocations, budget %d", tt.name, n, got, budget)
			}
		}
	}
}
