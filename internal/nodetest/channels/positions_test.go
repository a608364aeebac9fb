package channels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// remote is a memory engine that seems to be far away: what it delivers takes time,
// and may get lost; what it stores may change behind the back of the node.
type remote struct {
	broker.Broker
	handler broker.EventHandler

	mu sync.Mutex
	// lose tells what gets lost, delay how long the rest takes.
	lose  func(ch string) bool
	delay time.Duration
	// top is what becomes of positions that are read.
	top func(ch string, p *channel.StreamPosition) error
	// reads of positions; of them early saw a publication that was under way.
	reads, early int
	lines        map[string]chan arriving
	underWay     map[string]int
	done         sync.WaitGroup
}

type arriving struct {
	at time.Time
	e  broker.PublicationEvent
}

func newRemote() *remote {
	return &remote{Broker: nodetest.Plain(memory.New(memory.Config{})), lines: make(map[string]chan arriving), underWay: make(map[string]int)}
}

func (r *remote) Run(h broker.EventHandler) error {
	r.handler = h
	return r.Broker.Run((*arrivals)(r))
}

func (r *remote) Close(ctx context.Context) error {
	r.mu.Lock()
	for _, line := range r.lines {
		close(line)
	}
	r.lines = nil
	r.mu.Unlock()
	r.done.Wait()
	return r.Broker.Close(ctx)
}

func (r *remote) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	h, err := r.Broker.History(ctx, ch, f)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.underWay[ch] > 0 {
		r.early++
	}
	if r.top != nil && err == nil {
		err = r.top(ch, &h.Top)
	}
	return h, err
}

func (r *remote) set(f func(*remote)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// read returns the number of reads since the last time.
func (r *remote) read() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.reads
	r.reads = 0
	return n
}

// arrivals has what is published arrive later, in order.
type arrivals remote

func (a *arrivals) HandlePublication(ch string, e broker.PublicationEvent) {
	r := (*remote)(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lose != nil && r.lose(ch) || r.lines == nil {
		return
	}
	if r.delay == 0 && r.lines[ch] == nil {
		r.handler.HandlePublication(ch, e)
		return
	}
	line := r.lines[ch]
	if line == nil {
		line = make(chan arriving, 10_000)
		r.lines[ch] = line
		r.done.Go(func() {
			for next := range line {
				time.Sleep(time.Until(next.at))
				r.set(func(r *remote) { r.underWay[ch]-- })
				r.handler.HandlePublication(ch, next.e)
			}
		})
	}
	r.underWay[ch]++
	line <- arriving{time.Now().Add(r.delay), e}
}

func (a *arrivals) HandleJoin(ch string, i *channel.ClientInfo)  { a.handler.HandleJoin(ch, i) }
func (a *arrivals) HandleLeave(ch string, i *channel.ClientInfo) { a.handler.HandleLeave(ch, i) }
func (a *arrivals) HandleLoss(match func(string) bool)           { a.handler.HandleLoss(match) }

var kept = nodetest.Keep(100, 24*time.Hour)

// checkDelay is the default delay, and the grace after a read.
const checkDelay = 41 * time.Second

// runFar runs a node on r. Users named "server…" are subscribed to ch by the server.
func runFar(t *testing.T, r broker.Broker) *gyro.Node {
	h := nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})
	h.Connecting = func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		reply, err := nodetest.As(ctx, e)
		if strings.HasPrefix(e.Token, "server") {
			reply.Subscriptions = map[string]gyro.SubscribeOptions{"ch": {Positioned: true}}
		}
		return reply, err
	}
	return nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: r, Handlers: h})
}

func wantInsufficient(t *testing.T, c *wstest.Client) {
	t.Helper()
	synctest.Wait()
	if p := c.Pushes(); len(p) != 1 || p[0].Unsubscribe == nil || *p[0].Unsubscribe != protocol.UnsubscribeInsufficientState {
		t.Errorf("got %+v, want the end of the subscription", p)
	}
}

func wantQuiet(t *testing.T, when string, clients ...*wstest.Client) {
	t.Helper()
	synctest.Wait()
	for i, c := range clients {
		if p := c.Pushes(); len(p) != 0 {
			t.Errorf("%s: client %d got %+v", when, i, p[0])
		}
	}
}

// Whatever makes a position wrong, all subscribers of the channel are told within the
// delay, and nobody else.
func TestLossIsFound(t *testing.T) {
	lost := func(t *testing.T, node *gyro.Node, r *remote) {
		r.set(func(r *remote) { r.lose = func(ch string) bool { return ch == "ch" } })
		nodetest.Publish(t, node, "ch", `2`, kept)
		r.set(func(r *remote) { r.lose = nil })
	}
	for name, damage := range map[string]func(*testing.T, *gyro.Node, *remote){
		"a lost publication": lost,
		"another epoch": func(_ *testing.T, _ *gyro.Node, r *remote) {
			r.set(func(r *remote) {
				r.top = func(ch string, p *channel.StreamPosition) error {
					if ch == "ch" {
						p.Epoch = "new"
					}
					return nil
				}
			})
		},
		"a stream that went back": func(_ *testing.T, _ *gyro.Node, r *remote) {
			r.set(func(r *remote) {
				r.top = func(ch string, p *channel.StreamPosition) error {
					if ch == "ch" {
						p.Offset--
					}
					return nil
				}
			})
		},
		"a loss that cannot be checked at first": func(t *testing.T, node *gyro.Node, r *remote) {
			lost(t, node, r)
			r.set(func(r *remote) {
				r.top = func(string, *channel.StreamPosition) error { return errors.New("connection refused") }
			})
			time.Sleep(10 * time.Minute)
			r.set(func(r *remote) { r.top = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote()
				node := runFar(t, r)
				var clients, others []*wstest.Client
				for i := range 10 {
					c, o := nodetest.Connect(t, node, fmt.Sprint(i)), nodetest.Connect(t, node, fmt.Sprint(i))
					c.Subscribe("ch", "")
					o.Subscribe("other", "")
					clients, others = append(clients, c), append(others, o)
				}
				server := nodetest.Connect(t, node, "server")
				nodetest.Publish(t, node, "ch", `1`, kept)
				nodetest.Publish(t, node, "other", `1`, kept)
				synctest.Wait()
				for _, c := range append(append(clients, others...), server) {
					nodetest.WantPub(t, c, `1`)
				}
				time.Sleep(10 * time.Minute)
				wantQuiet(t, "before", append(append(clients, others...), server)...)
				damage(t, node, r)
				wantQuiet(t, "right afterwards", append(append(clients, others...), server)...)
				time.Sleep(checkDelay)
				for _, c := range clients {
					wantInsufficient(t, c)
				}
				nodetest.WantDisconnect(t, server, protocol.DisconnectInsufficientState)
				time.Sleep(10 * time.Minute)
				wantQuiet(t, "afterwards", append(clients, others...)...)
			})
		})
	}
}

// The engine is read once per channel and delay, however many clients there are, and
// not at all for channels without positions.
func TestReadsPerChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels, clients = 20, 10
		r := newRemote()
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Positioned: !strings.HasPrefix(e.Channel, "plain")}}, nil
		}
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: r, Handlers: h})
		var all []*wstest.Client
		for i := range clients {
			c := nodetest.Connect(t, node, fmt.Sprint(i))
			for k := range channels {
				c.Subscribe(fmt.Sprint("ch", k), "")
				c.Subscribe(fmt.Sprint("plain", k), "")
			}
			all = append(all, c)
		}
		time.Sleep(2 * time.Second) // until the checks have found their beat
		synctest.Wait()
		r.read()
		for range 10 {
			time.Sleep(40 * time.Second)
			synctest.Wait()
			if n := r.read(); n != channels {
				t.Errorf("%d reads of %d channels", n, channels)
			}
		}
		wantQuiet(t, "later", all...)
		for _, c := range all {
			c.Vanish()
		}
		time.Sleep(10 * time.Minute)
		if n := r.read(); n > channels {
			t.Errorf("%d reads although nobody is subscribed", n)
		}
	})
}

// A publication that the stream has and the node has not is under way, and no loss:
// here it is often so when the position is read.
func TestPublicationUnderWayIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels = 50
		r := newRemote()
		r.delay = 999 * time.Millisecond
		node := runFar(t, r)
		var clients []*wstest.Client
		for i := range channels {
			c := nodetest.Connect(t, node, "u")
			c.Subscribe(fmt.Sprint("ch", i), "")
			clients = append(clients, c)
		}
		random := rand.New(rand.NewPCG(1, 2))
		sent := 0
		for range 3000 {
			nodetest.Publish(t, node, fmt.Sprint("ch", random.IntN(channels)), `1`, kept)
			sent++
			time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := 0
		for _, c := range clients {
			for _, p := range c.Pushes() {
				if p.Pub == nil {
					t.Fatalf("got %+v", p)
				}
				got++
			}
		}
		if got != sent || r.early < 20 {
			t.Errorf("%d publications of %d arrived; %d were under way during a read", got, sent, r.early)
		}
	})
}

// When the broker tells of a loss, its channels are checked at once, and others are
// not.
func TestHandleLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels = 1000
		r := newRemote()
		node := runFar(t, r)
		clients := make(map[string]*wstest.Client)
		for i := range channels / 100 {
			c := nodetest.Connect(t, node, "u")
			for k := range 100 {
				ch := fmt.Sprint("ch", i*100+k)
				c.Subscribe(ch, "")
				clients[ch] = c
			}
		}
		r.set(func(r *remote) { r.lose = func(ch string) bool { return ch == "ch7" || ch == "ch13" } })
		nodetest.Publish(t, node, "ch7", `1`, kept)
		nodetest.Publish(t, node, "ch13", `1`, kept)
		r.read()
		r.handler.HandleLoss(func(ch string) bool { return ch != "ch13" })
		r.handler.HandleLoss(func(ch string) bool { return ch != "ch13" })
		synctest.Wait()
		if n := r.read(); n < channels-1 || n > 2*channels {
			t.Errorf("%d reads of %d channels", n, channels-1)
		}
		time.Sleep(time.Second)
		wantInsufficient(t, clients["ch7"])
		wantQuiet(t, "meanwhile", clients["ch13"])
		time.Sleep(checkDelay)
		wantInsufficient(t, clients["ch13"])
		for _, c := range clients {
			wantQuiet(t, "afterwards", c)
		}
	})
}

// Positions that are right are never found wrong, whoever comes and goes, publishes
// and asks for checks meanwhile.
func TestNothingIsBlamed(t *testing.T) {
	for name, make := range map[string]func() (broker.Broker, func()){
		"far": func() (broker.Broker, func()) {
			r := newRemote()
			r.delay = 700 * time.Millisecond
			return r, func() { r.handler.HandleLoss(func(string) bool { return true }) }
		},
		"local": func() (broker.Broker, func()) {
			w := &watched{Broker: memory.New(memory.Config{})}
			return w, func() { w.handler.HandleLoss(func(string) bool { return true }) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, lose := make()
				node := runFar(t, b)
				var wg sync.WaitGroup
				over := time.Now().Add(time.Minute)
				worker := func(n int, f func(*rand.Rand)) {
					random := rand.New(rand.NewPCG(3, uint64(n)))
					wg.Go(func() {
						for time.Now().Before(over) {
							f(random)
							time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
						}
					})
				}
				for i := range 4 {
					worker(i, func(r *rand.Rand) {
						for range r.IntN(5) {
							nodetest.Publish(t, node, fmt.Sprint("ch", r.IntN(5)), `1`, kept)
						}
					})
					worker(10+i, func(*rand.Rand) { lose() })
				}
				for i := range 8 {
					worker(20+i, func(r *rand.Rand) {
						c := nodetest.Connect(t, node, "u")
						for range 1 + r.IntN(5) {
							ch := fmt.Sprint("ch", r.IntN(5))
							c.Subscribe(ch, "")
							time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
							c.Do(`"unsubscribe":{"channel":"` + ch + `"}`)
						}
						for _, p := range c.Pushes() {
							if p.Unsubscribe != nil {
								t.Errorf("got %+v", p.Unsubscribe)
							}
						}
						c.Vanish()
					})
				}
				wg.Wait()
			})
		})
	}
}

// watched is a broker of this process whose handler the test knows.
type watched struct {
	*memory.Broker
	handler broker.EventHandler
}

func (w *watched) Run(h broker.EventHandler) error {
	w.handler = h
	return w.Broker.Run(h)
}
