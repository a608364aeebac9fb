package engines

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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

// faulty is a memory engine whose operations fail, or wait, as a test wants. It
// knows what is subscribed.
type faulty struct {
	broker.Broker
	broker.PresenceManager

	mu         sync.Mutex
	hooks      map[string]func() error // by operation
	subscribed map[string]bool
}

func (f *faulty) Describe() broker.Traits { return broker.Traits{Name: "faulty"} }

func newFaulty() *faulty {
	return &faulty{
		Broker: memory.New(memory.Config{}), PresenceManager: memory.NewPresence(memory.Config{}),
		hooks: make(map[string]func() error), subscribed: make(map[string]bool),
	}
}

// on sets what happens before an operation; nil for nothing.
func (f *faulty) on(operation string, hook func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[operation] = hook
}

func (f *faulty) before(operation string) error {
	f.mu.Lock()
	hook := f.hooks[operation]
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook()
}

func (f *faulty) note(on bool, channels []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, ch := range channels {
		if on {
			f.subscribed[ch] = true
		} else {
			delete(f.subscribed, ch)
		}
	}
}

// channels returns what the node is subscribed to.
func (f *faulty) channels() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.subscribed))
}

func (f *faulty) Subscribe(ctx context.Context, channels ...string) error {
	if err := f.before("subscribe"); err != nil {
		return err
	}
	f.note(true, channels)
	return f.Broker.Subscribe(ctx, channels...)
}

func (f *faulty) Unsubscribe(ctx context.Context, channels ...string) error {
	f.note(false, channels)
	return errors.Join(f.before("unsubscribe"), f.Broker.Unsubscribe(ctx, channels...))
}

func (f *faulty) Publish(ctx context.Context, ch string, pub *channel.Publication, o broker.PublishOptions) (broker.PublishResult, error) {
	if err := f.before("publish"); err != nil {
		return broker.PublishResult{}, err
	}
	return f.Broker.Publish(ctx, ch, pub, o)
}

func (f *faulty) History(ctx context.Context, ch string, h broker.HistoryFilter) (broker.History, error) {
	if err := f.before("history"); err != nil {
		return broker.History{}, err
	}
	return f.Broker.History(ctx, ch, h)
}

func (f *faulty) PublishJoin(ctx context.Context, ch string, i *channel.ClientInfo) error {
	return errors.Join(f.before("join"), f.Broker.PublishJoin(ctx, ch, i))
}

func (f *faulty) PublishLeave(ctx context.Context, ch string, i *channel.ClientInfo) error {
	return errors.Join(f.before("leave"), f.Broker.PublishLeave(ctx, ch, i))
}

func (f *faulty) Add(ctx context.Context, ch string, i *channel.ClientInfo) error {
	if err := f.before("add"); err != nil {
		return err
	}
	return f.PresenceManager.Add(ctx, ch, i)
}

func (f *faulty) Remove(ctx context.Context, ch, client, user string) error {
	return errors.Join(f.before("remove"), f.PresenceManager.Remove(ctx, ch, client, user))
}

func (f *faulty) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	if err := f.before("presence"); err != nil {
		return nil, err
	}
	return f.PresenceManager.Presence(ctx, ch)
}

func (f *faulty) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	if err := f.before("stats"); err != nil {
		return broker.PresenceStats{}, err
	}
	return f.PresenceManager.Stats(ctx, ch)
}

// wantEmpty checks that nothing is left of subscriptions once everything rests.
// Channels of a broker that is not local are left after a second.
func wantEmpty(t *testing.T, node *gyro.Node, f *faulty, channels ...string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	synctest.Wait()
	if i := nodetest.Info(t, node); i.NumChannels != 0 || i.NumSubs != 0 {
		t.Errorf("there are %+v", i)
	}
	left, err := node.Cluster().Channels(context.Background(), "")
	nodetest.Must(t, err)
	if len(left) != 0 {
		t.Errorf("channels left: %v", left)
	}
	if subscribed := f.channels(); len(subscribed) != 0 {
		t.Errorf("the broker is still subscribed to %v", subscribed)
	}
	for _, ch := range channels {
		if stats, err := f.PresenceManager.Stats(context.Background(), ch); err != nil || stats.Clients != 0 {
			t.Errorf("presence of %s: %+v, %v", ch, stats, err)
		}
	}
}

var full = gyro.SubscribeOptions{Presence: true, Recoverable: true, EmitJoinLeave: true, PushJoinLeave: true}

func TestBrokerFailsDuringSubscribe(t *testing.T) {
	down := errors.New("connection refused")
	for _, op := range []string{"subscribe", "add", "history"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: nodetest.Everything(full, gyro.PublishOptions{})})
				other := nodetest.Connect(t, node, "other")

				f.on(op, func() error { return down })
				c := nodetest.Connect(t, node, "u")
				c.Start(`"subscribe":{"channel":"ch"}`)
				nodetest.WantDisconnect(t, c, protocol.DisconnectServerError)
				wantEmpty(t, node, f, "ch")

				// A client error of the broker is passed on; the client may go on.
				f.on(op, func() error { return protocol.ErrorLimitExceeded })
				d := nodetest.Connect(t, node, "u")
				if r := d.Call(`"subscribe":{"channel":"ch"}`); r.Error == nil || *r.Error != *protocol.ErrorLimitExceeded {
					t.Errorf("got %v", r.Error)
				}
				wantEmpty(t, node, f, "ch")
				nodetest.Must(t, node.Users().Subscribe(t.Context(), gyro.Target{User: "other"}, "ch", nil))
				if op == "subscribe" {
					nodetest.WantDisconnect(t, other, protocol.DisconnectServerError)
				}

				f.on(op, nil)
				d.Subscribe("ch", "")
				d.Vanish()
				other.Vanish()
				wantEmpty(t, node, f, "ch")
			})
		})
	}
}

func TestBrokerFailsDuringConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		h := nodetest.Everything(full, gyro.PublishOptions{})
		h.Connecting = func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			subs := make(map[string]gyro.SubscribeOptions)
			for _, ch := range []string{"1", "2", "3", "4"} {
				subs[ch] = full
			}
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}, Subscriptions: subs}, nil
		}
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: h})
		var calls int
		var mu sync.Mutex
		f.on("history", func() error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 3 {
				return errors.New("connection reset")
			}
			return nil
		})
		c := wstest.Pipe(t, node)
		c.Start(`"connect":{}`)
		nodetest.WantDisconnect(t, c, protocol.DisconnectServerError)
		wantEmpty(t, node, f, "1", "2", "3", "4")
		if i := nodetest.Info(t, node); i.NumClients != 0 {
			t.Errorf("there are %+v", i)
		}
	})
}

func TestBrokerFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: nodetest.Everything(full, gyro.PublishOptions{})})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("ch", "")
		down := errors.New("connection refused")
		for op, command := range map[string]string{
			"publish":  `"publish":{"channel":"ch","data":1}`,
			"history":  `"history":{"channel":"ch"}`,
			"presence": `"presence":{"channel":"ch"}`,
			"stats":    `"presence_stats":{"channel":"ch"}`,
		} {
			f.on(op, func() error { return down })
			if r := c.Call(command); r.Error == nil || *r.Error != *protocol.ErrorInternal {
				t.Errorf("%s: got %v", op, r.Error)
			}
		}
		// That the broker is told later is no business of the client's.
		f.on("unsubscribe", func() error { return down })
		c.Do(`"unsubscribe":{"channel":"ch"}`)
		_, publishErr := node.Publish(t.Context(), "ch", []byte(`1`), nil)
		_, historyErr := node.History(t.Context(), "ch", nil)
		_, presenceErr := node.Presence(t.Context(), "ch")
		_, statsErr := node.PresenceStats(t.Context(), "ch")
		for _, err := range []error{publishErr, historyErr, presenceErr, statsErr} {
			if !errors.Is(err, down) {
				t.Errorf("got %v", err)
			}
		}
		wantEmpty(t, node, f, "ch")
		c.Do(`"rpc":{}`)
	})
}

func TestBrokerFailsWhenAClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: nodetest.Everything(full, gyro.PublishOptions{})})
		for _, op := range []string{"join", "leave", "remove", "unsubscribe"} {
			f.on(op, func() error { return errors.New("connection refused") })
		}
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("a", "")
		c.Subscribe("b", "")
		c.Vanish()
		wantEmpty(t, node, f, "a", "b")
	})
}

// The application hears nothing of a client before Connected: not of the subscriptions that were established when another
// one of the connect failed, or when the client went.
func TestNothingIsToldOfAFailedConnect(t *testing.T) {
	for _, goes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFaulty()
			release, calls := make(chan struct{}), 0
			f.on("history", func() error {
				if calls++; calls == 1 {
					return nil
				}
				<-release
				return errors.New("no history")
			})
			var told []string
			h := nodetest.Everything(full, gyro.PublishOptions{})
			h.Connecting = func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{
					Credentials: &gyro.Credentials{UserID: "u"}, Subscriptions: map[string]gyro.SubscribeOptions{"a": full, "b": full},
				}, nil
			}
			h.Connected = func(context.Context, *gyro.Client) { told = append(told, "connected") }
			h.Unsubscribed = func(context.Context, *gyro.Client, gyro.UnsubscribeEvent) { told = append(told, "unsubscribed") }
			h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { told = append(told, "disconnected") }
			node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: h})
			c := wstest.Pipe(t, node)
			c.Start(`"connect":{}`)
			synctest.Wait()
			if goes {
				c.Vanish()
				synctest.Wait()
			}
			close(release)
			wantEmpty(t, node, f, "a", "b")
			if calls != 2 || len(told) > 0 {
				t.Errorf("after %d reads the application was told %q", calls, told)
			}
		})
	}
}

// A client that goes at any step of a subscribe leaves no trace.
func TestClientVanishesDuringSubscribe(t *testing.T) {
	for _, op := range []string{"handler", "subscribe", "add", "history"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				release := make(chan struct{})
				wait := func() error { <-release; return nil }
				h := nodetest.Everything(full, gyro.PublishOptions{})
				h.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
					return gyro.SubscribeReply{Options: full}, f.before("handler")
				}
				var last string
				h.Unsubscribed = func(_ context.Context, _ *gyro.Client, e gyro.UnsubscribeEvent) { last = "unsubscribed" }
				h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { last = "disconnected" }
				node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: h})
				c := nodetest.Connect(t, node, "u")
				f.on(op, wait)
				c.Start(`"subscribe":{"channel":"ch"}`)
				synctest.Wait()
				c.Vanish()
				synctest.Wait()
				close(release)
				wantEmpty(t, node, f, "ch")
				if last != "disconnected" {
					t.Errorf("the last handler was %q", last)
				}
			})
		})
	}
}

// The context of a broker's call ends with the client, but what comes of the call
// nobody knows.
func TestSubscribeThatFailsHalfway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: f, Handlers: nodetest.Everything(full, gyro.PublishOptions{})})
		c := nodetest.Connect(t, node, "u")
		f.on("subscribe", func() error {
			f.note(true, []string{"ch"}) // it got through,
			return context.DeadlineExceeded
		})
		c.Start(`"subscribe":{"channel":"ch"}`)
		nodetest.WantDisconnect(t, c, protocol.DisconnectServerError)
		wantEmpty(t, node, f, "ch")
	})
}

// Lost PUB/SUB messages are found by the periodic check.
func TestPositionCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		node := nodetest.Run(t, gyro.Config{Broker: f, Presence: f, Handlers: nodetest.Everything(gyro.SubscribeOptions{Positioned: true}, gyro.PublishOptions{})})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("ch", "")
		history := nodetest.Keep(10, time.Hour)
		nodetest.Publish(t, node, "ch", `1`, history)
		nodetest.WantPub(t, c, `1`)
		nodetest.Must(t, f.Broker.Unsubscribe(t.Context(), "ch"))
		nodetest.Publish(t, node, "ch", `2`, history)
		time.Sleep(2 * time.Minute)
		if p := c.Push(); p.Unsubscribe == nil || *p.Unsubscribe != protocol.UnsubscribeInsufficientState {
			t.Errorf("got %+v", p)
		}
	})
}

// Clients that go while the presence manager is out of reach are not present when it is
// back, and those that came meanwhile are.
func TestPresenceIsRemovedWhenItCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty()
		p := &refusing{PresenceManager: f.PresenceManager}
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: f, Presence: p, Handlers: nodetest.Everything(full, gyro.PublishOptions{})})
		a, b := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "b")
		a.Subscribe("ch", "")
		b.Subscribe("ch", "")
		p.down.Store(true)
		a.Vanish()
		b.Do(`"unsubscribe":{"channel":"ch"}`)
		time.Sleep(10 * time.Second)
		p.down.Store(false)
		time.Sleep(time.Second)
		b.Subscribe("ch", "")
		time.Sleep(10 * time.Second)
		if stats, err := node.PresenceStats(t.Context(), "ch"); err != nil || stats.Clients != 1 {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}

// refusing is a presence manager that may be down, and then changes nothing.
type refusing struct {
	broker.PresenceManager
	down atomic.Bool
}

func (r *refusing) Describe() broker.Traits { return broker.Traits{Name: "refusing"} }

func (r *refusing) Add(ctx context.Context, ch string, i *channel.ClientInfo) error {
	if r.down.Load() {
		return errors.New("connection refused")
	}
	return r.PresenceManager.Add(ctx, ch, i)
}

func (r *refusing) Remove(ctx context.Context, ch, client, user string) error {
	if r.down.Load() {
		return errors.New("connection refused")
	}
	return r.PresenceManager.Remove(ctx, ch, client, user)
}
