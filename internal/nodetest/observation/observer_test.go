package observation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// tally adds up what an observer is told, under texts.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (a *tally) add(n int, format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = make(map[string]int)
	}
	if n != 0 {
		a.n[fmt.Sprintf(format, args...)] += n
	}
}

func (a *tally) turn(t *observe.Turn) {
	for i := range t.Transports {
		k := &t.Transports[i]
		a.add(k.Accepted, "accepted %s %s", k.Name, k.Encoding)
		for m, n := range k.Received {
			a.add(n.Messages, "received %s", observe.Message(m))
		}
	}
	for _, c := range t.Commands {
		a.add(1, "%s %d after %v", c.Method, c.Code, c.Took)
	}
	for _, d := range t.Disconnects {
		a.add(d.Count, "%s closed: %d %s", d.Transport, d.Disconnect.Code, d.Disconnect.Reason)
	}
	for _, u := range t.Unsubscribes {
		a.add(u.Count, "unsubscribed: %d", u.Code)
	}
	for l, n := range t.Refusals {
		a.add(n, "refused %s", observe.Limit(l))
	}
	for _, s := range t.Subscriptions {
		a.add(s.Subscribed, "subscribed")
		a.add(s.Unsubscribed, "unsubscribed")
	}
	a.add(t.Deliveries, "deliveries")
	a.add(t.Bytes, "bytes")
}

// effect marks the context, so that the handler can tell.
func (a *tally) effect(ctx context.Context, e observe.Effect) (context.Context, func(error)) {
	text := strings.TrimSpace(e.Name + " " + e.Channel)
	if e.Inline {
		text += " inline"
	}
	begin := time.Now()
	return context.WithValue(ctx, spanKey{}, text), func(err error) {
		a.add(1, "%s: %v after %v", text, err, time.Since(begin))
	}
}

type spanKey struct{}

// since returns what was added, but for bytes, and forgets it.
func (a *tally) since() map[string]int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.n
	a.n = nil
	delete(n, "bytes")
	return n
}

func (a *tally) want(t *testing.T, step string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, a.since()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

var kicked = protocol.Disconnect{Code: 4100, Reason: "kicked"}

// observed returns a node with an RPC for each way in which one can end.
func observed(t *testing.T, a *tally, o observe.Observer) *gyro.Node {
	h := nodetest.Everything(gyro.SubscribeOptions{PushJoinLeave: true}, gyro.PublishOptions{})
	allowed := h.Subscribe
	h.Subscribe = func(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		if e.Channel == "secret" {
			return gyro.SubscribeReply{}, protocol.ErrorPermissionDenied
		}
		return allowed(ctx, c, e)
	}
	h.Message = func(context.Context, *gyro.Client, []byte) error { return nil }
	h.RPC = func(ctx context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
		switch e.Method {
		case "slow":
			time.Sleep(100 * time.Millisecond)
		case "panic":
			panic("of the test")
		case "kick":
			return nil, kicked
		case "large":
			return []byte(`"` + strings.Repeat("x", 1000) + `"`), nil
		}
		if span := ctx.Value(spanKey{}); span != nil {
			a.add(1, "handled under %v", span)
		}
		return nil, nil
	}
	return nodetest.Run(t, gyro.Config{
		Logger: nodetest.Quiet, Observer: o, Handlers: h, ChannelLimit: 2, QueueMaxSize: 1000, UserConnectionLimit: 2, PingInterval: -1,
	})
}

// A conversation is counted exactly: what clients say and get, what the server ends, and
// the limits that they meet.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(tally)
		node := observed(t, a, observe.Observer{Turn: a.turn})
		c := nodetest.Connect(t, node, "u")
		a.want(t, "connect", map[string]int{"accepted pipe json": 1, "received connect": 1, "connect 0 after 0s": 1})

		c.Subscribe("a", "")
		c.Subscribe("b", "")
		for _, ch := range []string{"c", "a", strings.Repeat("x", 256)} {
			c.Outcome(`"subscribe":{"channel":"` + ch + `"}`)
		}
		c.Do(`"unsubscribe":{"channel":"b"}`)
		c.Outcome(`"subscribe":{"channel":"secret"}`)
		a.want(t, "subscriptions", map[string]int{
			"received subscribe": 6, "received unsubscribe": 1, "subscribe 0 after 0s": 2, "subscribe 106 after 0s": 1,
			"subscribe 105 after 0s": 1, "subscribe 107 after 0s": 1, "subscribe 103 after 0s": 1, "unsubscribe 0 after 0s": 1,
			"refused channels": 1, "refused channel_length": 1, "subscribed": 2, "unsubscribed": 1,
		})

		// Several are on their way: each has its own time, from its arrival to its answer.
		first, second := c.Start(`"rpc":{"method":"slow"}`), c.Start(`"rpc":{"method":"slow"}`)
		c.Start(`"send":{"data":1}`)
		c.Await(second)
		c.Await(first)
		c.Outcome(`"rpc":{"method":"panic"}`)
		c.Outcome(`"rpc":{"method":"large"}`)
		c.Do(`"publish":{"channel":"a","data":1}`)
		a.want(t, "commands", map[string]int{
			"received rpc": 4, "received send": 1, "received publish": 1, "rpc 0 after 100ms": 1, "rpc 0 after 200ms": 1,
			"rpc 100 after 0s": 1, "rpc 106 after 0s": 1, "refused reply_size": 1, "publish 0 after 0s": 1, "deliveries": 1,
		})

		others := []*wstest.Client{nodetest.Connect(t, node, "v"), nodetest.Connect(t, node, "w"), nodetest.Connect(t, node, "w")}
		third := wstest.Pipe(t, node)
		third.Start(`"connect":{"token":"w"}`)
		nodetest.WantDisconnect(t, third, protocol.DisconnectConnectionLimit)
		for _, o := range others {
			o.Subscribe("a", "")
		}
		a.want(t, "others", map[string]int{
			"accepted pipe json": 4, "received connect": 4, "connect 0 after 0s": 3, "refused user_connections": 1,
			"pipe closed: 3504 connection limit": 1, "received subscribe": 3, "subscribe 0 after 0s": 3, "subscribed": 3,
		})

		nodetest.Publish(t, node, "a", `1`)
		nodetest.Must(t, node.Users().Unsubscribe(t.Context(), gyro.Target{User: "v"}, "a", nil))
		nodetest.Publish(t, node, "a", `2`)
		c.Start(`"rpc":{"method":"kick"}`)
		nodetest.WantDisconnect(t, c, kicked)
		others[0].Vanish()
		a.want(t, "ends", map[string]int{
			"deliveries": 4 + 3, "unsubscribed: 2000": 1, "received rpc": 1, "unsubscribed": 2,
			"pipe closed: 4100 kicked": 1, "pipe closed: 3000 connection closed": 1,
		})

		others[1].Stall(true)
		for range 3 {
			nodetest.Publish(t, node, "a", `"`+strings.Repeat("x", 400)+`"`)
			synctest.Wait()
		}
		a.want(t, "slow", map[string]int{"deliveries": 6, "refused queue_size": 1, "pipe closed: 3008 slow": 1, "unsubscribed": 1})
		nodetest.Must(t, node.Shutdown(t.Context()))
		a.want(t, "shutdown", map[string]int{"pipe closed: 3001 shutdown": 1, "unsubscribed": 1})
	})
}

// What transports took is counted, whatever it was.
func TestObserverBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(tally)
		node := observed(t, a, observe.Observer{Turn: a.turn})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("a", "")
		synctest.Wait()
		a.mu.Lock()
		before := a.n["bytes"]
		a.mu.Unlock()
		nodetest.Publish(t, node, "a", `1`)
		synctest.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if got, want := a.n["bytes"]-before, len(`{"push":{"channel":"a","pub":{"data":1}}}`+"\n"); got != want {
			t.Errorf("%d bytes, want %d", got, want)
		}
	})
}

// An observer of effects sees the begin and the end of each, and the handler runs under its
// context.
func TestObserverEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(tally)
		node := observed(t, a, observe.Observer{Effect: a.effect})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("a", "")
		c.Outcome(`"subscribe":{"channel":"secret"}`)
		c.Do(`"rpc":{"method":"slow"}`)
		c.Outcome(`"rpc":{"method":"panic"}`)
		c.Do(`"publish":{"channel":"a","data":1}`)
		c.Do(`"unsubscribe":{"channel":"a"}`)
		a.want(t, "effects", map[string]int{
			"Connecting: <nil> after 0s": 1, "Subscribe a: <nil> after 0s": 1, "attach a inline: <nil> after 0s": 1,
			"Subscribe secret: 103: permission denied after 0s": 1, "handled under RPC": 1, "RPC: <nil> after 100ms": 1,
			"RPC: 100: internal server error after 0s": 1, "Publish a: <nil> after 0s": 1, "detach a inline: <nil> after 0s": 1,
		})
	})
}

// Inline effects are told as such, once more if they would have blocked.
func TestObserverInline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := new(tally)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Inline {
				return gyro.SubscribeReply{}, gyro.ErrWouldBlock
			}
			return gyro.SubscribeReply{}, nil
		}
		var who []string
		node := nodetest.Run(t, gyro.Config{Handlers: h, InlineHandlers: true, Observer: observe.Observer{
			Effect: func(ctx context.Context, e observe.Effect) (context.Context, func(error)) {
				a.mu.Lock()
				who = append(who, e.Client.ID()+" "+e.Client.UserID())
				a.mu.Unlock()
				return a.effect(ctx, e)
			},
		}})
		c := wstest.Pipe(t, node)
		id := c.Connect(`"token":"u"`).Client
		c.Subscribe("a", "")
		a.want(t, "effects", map[string]int{
			"Connecting inline: <nil> after 0s": 1, "Subscribe a inline: gyro: the handler would block after 0s": 1,
			"Subscribe a: <nil> after 0s": 1, "attach a inline: <nil> after 0s": 1,
		})
		if diff := cmp.Diff([]string{id + " ", id + " u", id + " u", id + " u"}, who); diff != "" {
			t.Error(diff)
		}
	})
}

// An observer that panics does not end the node: Turn costs what it was told, Effect the
// command.
func TestObserverPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		armed.Store(true)
		node := observed(t, new(tally), observe.Observer{
			Turn: func(*observe.Turn) {
				if armed.Load() {
					panic("of the observer")
				}
			},
			Effect: func(ctx context.Context, e observe.Effect) (context.Context, func(error)) {
				if e.Name == "RPC" {
					panic("of the observer")
				}
				return ctx, nil
			},
		})
		c := nodetest.Connect(t, node, "u")
		if _, r := c.Outcome(`"rpc":{}`); r.Error == nil || r.Error.Code != protocol.ErrorInternal.Code {
			t.Errorf("got %+v", r)
		}
		c.Subscribe("a", "")
		synctest.Wait()
		if node.Inspect().Panics() < 3 {
			t.Errorf("%d panics were counted", node.Inspect().Panics())
		}
		armed.Store(false)
	})
}
