package observation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// countedNode returns a node that lets clients do everything, in channels that differ by the first
// letter of their names.
func countedNode(t *testing.T, by observe.Observer) *gyro.Node {
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{HistorySize: 5, HistoryTTL: time.Hour})
	later := time.Now().Add(time.Hour)
	h.Connecting = func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		reply := gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token, ExpireAt: later}, ClientSideRefresh: true}
		if e.Transport.Mode == transport.OneWay {
			reply.Subscriptions = map[string]gyro.SubscribeOptions{"positioned": {Positioned: true, PushJoinLeave: true}}
		}
		return reply, nil
	}
	h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		o := gyro.SubscribeOptions{Presence: true, EmitJoinLeave: true, PushJoinLeave: true, ExpireAt: later}
		switch e.Channel[0] {
		case 'p':
			o.Positioned = true
		case 'r':
			o.Recoverable, o.AllowDelta, o.AllowCompaction = true, true, true
		case 'c':
			o.Recoverable, o.RecoveryMode, o.AutoRecover = true, gyro.RecoverCache, true
		case 'f':
			o.AllowTagsFilter = true
		}
		return gyro.SubscribeReply{Options: o, ClientSideRefresh: true}, nil
	}
	h.Message = func(context.Context, *gyro.Client, []byte) error { return nil }
	h.RPC = func(_ context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
		c.Send([]byte(`"hello"`))
		return []byte(`1`), nil
	}
	h.Refresh = func(context.Context, *gyro.Client, gyro.RefreshEvent) (gyro.RefreshReply, error) {
		return gyro.RefreshReply{ExpireAt: later}, nil
	}
	h.SubRefresh = func(context.Context, *gyro.Client, gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
		return gyro.SubRefreshReply{ExpireAt: later}, nil
	}
	return nodetest.Run(t, gyro.Config{Logger: slog.New(slog.DiscardHandler), Observer: by, Handlers: h})
}

// everyWay plays something on connections of both drivers.
func everyWay(t *testing.T, by func() (*counts, observe.Observer), play func(t *testing.T, node *gyro.Node, l *ledger)) {
	for _, looped := range []bool{false, true} {
		t.Run(fmt.Sprintf("looped=%v", looped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := by()
				node := countedNode(t, o)
				var a transport.Acceptor = node
				if looped {
					a = nodetest.OnLoops(node)
				}
				l := newLedger(a)
				play(t, node, l)
				nodetest.Must(t, node.Shutdown(t.Context()))
				synctest.Wait()
				if diff := cmp.Diff(l.traffic, c.traffic); diff != "" {
					t.Errorf("(-by bytes +by the observer):\n%s", diff)
				}
				if diff := cmp.Diff(c.Connected, c.Disconnected); diff != "" || len(c.Connected) == 0 {
					t.Errorf("(-connected +disconnected):\n%s", diff)
				}
				if !maps.Equal(c.Subscribed, c.Unsubscribed) || len(c.Subscribed) == 0 {
					t.Errorf("subscribed %v, unsubscribed %v", c.Subscribed, c.Unsubscribed)
				}
			})
		})
	}
}

func observer() (*counts, observe.Observer) {
	c := newCounts()
	return c, observe.Observer{Turn: c.turn}
}

func openFor(t *testing.T, a transport.Acceptor, e protocol.Encoding) *wstest.Client {
	c, err := wstest.Open(t.Context(), t, a, e)
	nodetest.Must(t, err)
	return c
}

// A conversation in which each type of message comes is counted exactly, message by message
// and byte by byte, as it goes over the wire.
func TestTraffic(t *testing.T) {
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		t.Run(e.String(), func(t *testing.T) {
			var c *counts
			everyWay(t, func() (*counts, observe.Observer) {
				var o observe.Observer
				c, o = observer()
				return c, o
			}, func(t *testing.T, node *gyro.Node, l *ledger) {
				converse(t, node, l, e)
			})
			seen := map[string]bool{}
			for key := range c.Sent {
				seen[key.Type] = true
			}
			for key := range c.Received {
				seen[key.Type] = true
			}
			for m := range observe.NumMessages {
				if !seen[m.String()] {
					t.Errorf("the conversation has no %v", m)
				}
			}
			if c.Connected["pipe unregistered unregistered"] != 2 || c.Connected["pipe unnamed unversioned"] != 2 ||
				c.Connected["lines unregistered unversioned"] != 2 {
				t.Errorf("connected: %v", c.Connected)
			}
			if len(c.Pongs) == 0 || slices.ContainsFunc(c.Pongs, func(p observe.Pong) bool { return p.Transport != "pipe" || p.Took != 0 }) {
				t.Errorf("pongs: %v", c.Pongs)
			}
		})
	}
}

func converse(t *testing.T, node *gyro.Node, l *ledger, e protocol.Encoding) {
	ctx := t.Context()
	one, err := nodetest.OpenOneWay(ctx, l, `{"token":"one","name":"curl"}`)
	nodetest.Must(t, err)
	defer one.HangUp()
	read := openLinesOneWay(t, l)
	defer read.HangUp()
	a, b := openFor(t, l, e), openFor(t, l, e)
	a.Connect(`"token":"a","name":"js","version":"1"`)
	b.Connect(`"token":"b"`)
	a.Subscribe("positioned", "")
	a.Outcome(`"subscribe":{"channel":"positioned"}`)
	b.Subscribe("positioned", "") // a sees the join
	batch := make([]gyro.BatchPublication, 5)
	for i := range batch {
		batch[i] = gyro.BatchPublication{Channel: "positioned", Data: fmt.Appendf(nil, "%d", i), Options: &gyro.PublishOptions{HistorySize: 9, HistoryTTL: time.Hour}}
	}
	node.PublishBatch(ctx, batch)
	synctest.Wait()
	for _, command := range []string{
		`"publish":{"channel":"positioned","data":{"text":"héllo"}}`, `"presence":{"channel":"positioned"}`,
		`"presence_stats":{"channel":"positioned"}`, `"history":{"channel":"positioned","limit":3}`, `"rpc":{"method":"m","data":1}`,
		`"refresh":{"token":"t"}`, `"sub_refresh":{"channel":"positioned","token":"t"}`,
	} {
		a.Do(command)
	}
	a.Send(`{"send":{"data":1}}` + "\n" + `{"id":1000,"rpc":{}}` + "\n")
	a.Await(1000)
	nodetest.Must(t, node.Users().Subscribe(ctx, gyro.Target{User: "b"}, "side", nil))
	nodetest.Must(t, node.Users().Unsubscribe(ctx, gyro.Target{User: "b"}, "side", nil))
	nodetest.Must(t, node.Users().Refresh(ctx, gyro.Target{User: "b"}, &gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Hour)}))
	b.Do(`"unsubscribe":{"channel":"positioned"}`) // a sees the leave
	time.Sleep(time.Minute)                        // pings
	synctest.Wait()
	b.Raw([]byte("\x05nonsense"))
	b.Disconnected()
	nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "one"}, nil))
	c := openFor(t, l, e)
	c.Connect(`"token":"c","name":"x","version":"y"`)
	c.Vanish()
	d := openFor(t, l, e)
	d.Connect("") // stays until the shutdown
	openFor(t, l, e)
	synctest.Wait()
}

// openLinesOneWay opens a one-way connection whose connect request is a message.
func openLinesOneWay(t *testing.T, a transport.Acceptor) *nodetest.Lines {
	l, err := nodetest.OpenLines(t.Context(), a, nodetest.OneWay)
	nodetest.Must(t, err)
	l.Peer.Receive([]byte(`{"token":"two","name":"curl"}`))
	return l
}

// Whatever clients do, at the same time and with any options, the observer counts what goes
// over the wire; and when all have gone, as many subscriptions and clients ended as began.
func TestTrafficProperty(t *testing.T) {
	for seed := range uint64(20) {
		everyWay(t, observer, func(t *testing.T, node *gyro.Node, l *ledger) {
			r := rand.New(rand.NewPCG(seed, 3))
			var clients []*wstest.Client
			for range 150 {
				if len(clients) < 3 || r.IntN(12) == 0 {
					c := openFor(t, l, protocol.Encoding(r.IntN(2)))
					c.Connect([]string{``, `"name":"n",`, `"version":"v",`}[r.IntN(3)] + `"token":"` + fmt.Sprint(r.IntN(4)) + `"`)
					clients = append(clients, c)
				}
				i := r.IntN(len(clients))
				if !churn(t, r, node, clients[i]) {
					clients = slices.Delete(clients, i, i+1)
				}
				if r.IntN(4) == 0 {
					synctest.Wait()
				}
			}
			synctest.Wait()
		})
	}
}

// churn does something with a client. It returns false if the client has ended.
func churn(t *testing.T, r *rand.Rand, node *gyro.Node, c *wstest.Client) bool {
	ch := []string{"positioned", "recoverable", "cache", "filtered", "other"}[r.IntN(5)]
	user := gyro.Target{User: fmt.Sprint(r.IntN(4))}
	switch r.IntN(12) {
	case 0, 1, 2:
		fields := ""
		switch {
		case ch == "recoverable":
			epoch := []string{"", "another"}[r.IntN(2)]
			fields = fmt.Sprintf(`,"recover":%v,"offset":%d,"epoch":%q,"flag":1`, r.IntN(2) == 0, r.IntN(8), epoch)
			if r.IntN(2) == 0 {
				fields += `,"delta":"fossil"`
			}
		case ch == "filtered" && r.IntN(2) == 0:
			fields = `,"tf":{"key":"k","cmp":"eq","val":"v"}`
		}
		outcome, _ := c.Outcome(fmt.Sprintf(`"subscribe":{"channel":%q%s}`, ch, fields))
		return !strings.HasPrefix(outcome, "disconnect")
	case 3:
		outcome, _ := c.Outcome(`"unsubscribe":{"channel":"` + ch + `"}`)
		return !strings.HasPrefix(outcome, "disconnect")
	case 4:
		nodetest.Must(t, node.Users().Unsubscribe(t.Context(), user, ch, nil))
	case 5:
		nodetest.Must(t, node.Users().Subscribe(t.Context(), user, ch, &gyro.SubscribeOptions{PushJoinLeave: true}))
	case 6:
		synctest.Wait()
		if r.IntN(2) == 0 {
			nodetest.Must(t, node.Users().Disconnect(t.Context(), user, &gyro.DisconnectOptions{Disconnect: &kicked}))
		} else {
			c.Vanish()
		}
		synctest.Wait()
		return false
	case 7:
		time.Sleep(30 * time.Second)
	default:
		batch := make([]gyro.BatchPublication, 1+r.IntN(4))
		for i := range batch {
			o := &gyro.PublishOptions{HistorySize: 3, HistoryTTL: time.Hour, Delta: true}
			if r.IntN(2) == 0 {
				o.Tags = map[string]string{"k": "v"}
			}
			batch[i] = gyro.BatchPublication{Channel: ch, Data: []byte(`"` + strings.Repeat("text ", 20) + fmt.Sprint(r.IntN(100)) + `"`), Options: o}
		}
		node.PublishBatch(t.Context(), batch)
	}
	return true
}

// Recoveries are counted by their outcome.
func TestRecoveriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := observer()
		node := countedNode(t, o)
		var epoch string
		for range 3 {
			epoch = nodetest.Publish(t, node, "recoverable", `1`, &gyro.PublishOptions{HistorySize: 2, HistoryTTL: time.Hour}).Position.Epoch
		}
		for _, from := range []int{0, 1, 2, 3, 7} { // two are kept; 7 was never reached
			nodetest.Connect(t, node, "u").Subscribe("recoverable", fmt.Sprintf(`"recover":true,"offset":%d,"epoch":%q`, from, epoch))
		}
		nodetest.Connect(t, node, "u").Outcome(`"subscribe":{"channel":"recoverable","recover":true,"offset":3,"epoch":"x","flag":2}`) // rather an error
		nodetest.Connect(t, node, "u").Subscribe("recoverable", "")
		nodetest.Publish(t, node, "cache", `1`, &gyro.PublishOptions{HistorySize: 2, HistoryTTL: time.Hour})
		nodetest.Connect(t, node, "u").Subscribe("cache", "")
		nodetest.Connect(t, node, "u").Subscribe("cache2", "")
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		want := map[observe.Recovery]int{
			{Recovered: true, Publications: 2}: 1, {Recovered: true, Publications: 1}: 2, {Recovered: true}: 1, {}: 3, // cache2 is empty, and its subscriber has lost nothing
		}
		if diff := cmp.Diff(want, c.Recoveries); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Each loop with subscribers counts a publication once, whatever the number of subscribers;
// skipped ones are counted one by one.
func TestBroadcastsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := observer()
		node := countedNode(t, o)
		loops := runtime.GOMAXPROCS(0)
		for range 3 * loops {
			nodetest.Connect(t, node, "u").Subscribe("filtered", `"tf":{"key":"k","cmp":"eq","val":"v"}`)
		}
		one := nodetest.Connect(t, node, "u")
		one.Subscribe("other", "")
		nodetest.Publish(t, node, "filtered", `1`, &gyro.PublishOptions{Tags: map[string]string{"k": "v"}})
		nodetest.Publish(t, node, "filtered", `2`)
		nodetest.Publish(t, node, "other", `3`)
		nodetest.Publish(t, node, "nobody", `4`)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for name, list := range map[string][]observe.Timing{"lags": c.Lags, "broadcasts": c.Broadcasts, "writes": c.Writes} {
			n := 0
			for _, l := range list {
				if n += l.Count; l.Took != 0 {
					t.Errorf("%s: %v", name, l)
				}
			}
			if n != 2*loops+1 {
				t.Errorf("%s: %d, want %d", name, n, 2*loops+1)
			}
		}
		if got := c.Sent[message{"pipe", protocol.JSON, "push_publication"}].Messages; got != 3*loops+1 || c.Filtered != 3*loops {
			t.Errorf("%d were sent, %d filtered", got, c.Filtered)
		}
	})
}

// What a node does with its engines is counted in Totals.
func TestTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		totals := new(observe.Totals)
		node := countedNode(t, observe.Observer{Totals: totals})
		ctx := t.Context()
		a, b := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "b")
		a.Subscribe("other", "")
		b.Subscribe("other", "")
		a.Subscribe("positioned", "")
		a.Subscribe("recoverable", `"recover":true`)
		a.Subscribe("cache", "")
		a.Do(`"publish":{"channel":"other","data":1}`)
		node.Broadcast(ctx, []string{"other", "positioned"}, []byte(`2`), nil)
		a.Do(`"presence":{"channel":"other"}`)
		a.Do(`"presence_stats":{"channel":"other"}`)
		a.Do(`"history":{"channel":"positioned"}`)
		nodetest.Must(t, node.RemoveHistory(ctx, "positioned"))
		for _, p := range []*gyro.Publication{{Key: "k"}, {Key: "k", Removed: true}, {Key: "k", Removed: true}} {
			_, err := node.Maps().Change(ctx, "map", p, channel.MapOptions{StreamSize: 1, StreamTTL: time.Hour})
			nodetest.Must(t, err)
		}
		_, err := node.Maps().State(ctx, "map", channel.StateFilter{Limit: 1})
		nodetest.Must(t, err)
		_, err = node.Maps().State(ctx, "map", channel.StateFilter{})
		nodetest.Must(t, err)
		nodetest.Must(t, node.Maps().Clear(ctx, "map"))
		if _, err := node.Cluster().Channels(ctx, ""); err != nil {
			t.Error(err)
		}
		b.Vanish()
		a.Do(`"unsubscribe":{"channel":"other"}`)
		synctest.Wait()
		got, want := map[string]uint64{}, map[string]uint64{
			"sent publication": 3, "received publication": 3, "sent join": 5, "received join": 5, "sent leave": 2, "received leave": 2,
			"broker_subscribe": 4, "broker_unsubscribe": 1, "add_presence": 5, "remove_presence": 2, "presence": 1, "presence_stats": 1,
			"history": 1, "history_recover": 1, "history_recover_cache": 1, "history_stream_top": 1, "history_remove": 1, "survey": 1,
			"map_publish": 1, "map_remove": 2, "map_clear": 1, "map_state_read": 1, "map_stats": 1,
			"sent map_publication": 1, "sent map_removal": 1,
		}
		for e := range observe.NumEvents {
			got["sent "+e.String()], got["received "+e.String()] = totals.Sent(e, ""), totals.Received(e, "")
		}
		for a := range observe.NumActions {
			got[a.String()] = totals.Actions(a, "")
		}
		maps.DeleteFunc(got, func(name string, n uint64) bool { return n == 0 || strings.HasSuffix(name, " control") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Control messages are counted as often as the controller sends them; each node also receives
// its own.
func TestControlMessagesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		engines, totals := [2]*bustest.Engine{bus.Engine(), bus.Engine()}, [2]observe.Totals{}
		for i, e := range engines {
			nodetest.Run(t, gyro.Config{Broker: e, Observer: observe.Observer{Totals: &totals[i]}})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		a, b := totals[0].Sent(observe.EventControl, ""), totals[1].Sent(observe.EventControl, "")
		if a != uint64(engines[0].Sent()) || b != uint64(engines[1].Sent()) || a == 0 || b == 0 {
			t.Errorf("%d and %d messages were counted, %d and %d sent", a, b, engines[0].Sent(), engines[1].Sent())
		}
		if got := totals[0].Received(observe.EventControl, ""); got == 0 || got > a+b {
			t.Errorf("%d of %d messages were received", got, a+b)
		}
	})
}

// The time for which a window holds publications back is no part of their lag and broadcast, but of
// the time from the publish to the write.
func TestWindowsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := observer()
		node := nodetest.Run(t, gyro.Config{Observer: o, Handlers: nodetest.Everything(gyro.SubscribeOptions{BatchMaxDelay: time.Second}, gyro.PublishOptions{})})
		a := nodetest.Connect(t, node, "u")
		a.Subscribe("ch", "")
		nodetest.Publish(t, node, "ch", `1`)
		time.Sleep(300 * time.Millisecond)
		nodetest.Publish(t, node, "ch", `2`)
		a.Pub()
		a.Pub()
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := c.Sent[message{"pipe", protocol.JSON, "push_publication"}].Messages; n != 2 {
			t.Errorf("%d publications", n)
		}
		for _, l := range append(c.Lags, c.Broadcasts...) {
			if l.Took != 0 {
				t.Errorf("lags %v, broadcasts %v", c.Lags, c.Broadcasts)
			}
		}
		if want := []observe.Timing{{Took: time.Second, Count: 1}, {Took: 700 * time.Millisecond, Count: 1}}; !slices.Equal(c.Writes, want) {
			t.Errorf("writes %v, want %v", c.Writes, want)
		}
	})
}

// With a function that names namespaces, all that concerns a channel is counted under the channel's.
func TestNamespacesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := observer()
		named, turn := make(map[string]bool), o.Turn
		o.Turn = func(t *observe.Turn) {
			turn(t)
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, e := range t.Commands {
				named[e.Method.String()+" in "+e.Namespace] = true
			}
			for i := range t.Transports {
				for m, n := range t.Transports[i].Sent {
					if n.Messages > 0 {
						named[observe.Message(m).String()+" sent in "+t.Transports[i].Namespace] = true
					}
				}
			}
			for _, e := range t.Subscriptions {
				named["subscribed in "+e.Namespace] = true
			}
			for _, e := range slices.Concat(t.Lags, t.Broadcasts, t.Writes) {
				named["publication in "+e.Namespace] = true
			}
		}
		totals := new(observe.Totals)
		o.Totals, o.ClientNames = totals, []string{"js"}
		o.Namespace = func(ch string) string {
			before, _, _ := strings.Cut(ch, ":")
			return before
		}
		node := countedNode(t, o)
		a := nodetest.Connect(t, node, "u")
		a.Subscribe("chat:1", "")
		nodetest.Publish(t, node, "chat:1", `1`)
		for a.Push().Pub == nil { // the client's own join comes before or after
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		want := []string{
			"connect in ", "connect sent in ", "publication in chat", "push_join sent in chat", "push_publication sent in chat",
			"subscribe in chat", "subscribe sent in chat", "subscribed in chat",
		}
		if got := slices.Sorted(maps.Keys(named)); !slices.Equal(got, want) {
			t.Errorf("counted %q, want %q", got, want)
		}
		if totals.Sent(observe.EventPublication, "chat") != 1 || totals.Received(observe.EventPublication, "chat") != 1 ||
			totals.Actions(observe.ActionBrokerSubscribe, "chat") != 1 || totals.Sent(observe.EventPublication, "") != 0 {
			t.Error("the totals are not those of the namespace")
		}
	})
}

// What a client does not take is known, and for how long it has waited.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}), PingInterval: -1})
		want := func(step string, ok func(observe.Load) bool) {
			t.Helper()
			synctest.Wait()
			if l, err := node.Inspect().Load(t.Context()); err != nil || !ok(l) {
				t.Errorf("%s: %+v, %v", step, l, err)
			}
		}
		clients := []*wstest.Client{nodetest.Connect(t, node, "u"), nodetest.Connect(t, node, "v"), nodetest.Connect(t, node, "w")}
		for _, c := range clients {
			c.Subscribe("ch", "")
		}
		want("at first", func(l observe.Load) bool { return l == observe.Load{} })
		clients[0].Stall(true)
		nodetest.Publish(t, node, "ch", `1`)
		synctest.Wait()
		one := 0
		want("one stalls", func(l observe.Load) bool {
			one = l.LargestQueue
			return l.QueuedClients == 1 && l.QueuedBytes == one && one > 0
		})
		time.Sleep(2 * time.Second)
		clients[1].Stall(true)
		nodetest.Publish(t, node, "ch", `2`)
		want("two stall", func(l observe.Load) bool {
			return l.QueuedClients == 2 && l.LargestQueue > one && l.QueuedBytes > l.LargestQueue && l.OldestQueued == 2*time.Second
		})
		clients[0].Vanish()
		want("one has gone", func(l observe.Load) bool { return l.QueuedClients == 1 && l.OldestQueued < 2*time.Second })
		clients[1].Stall(false)
		want("none stalls", func(l observe.Load) bool { return l == observe.Load{} })
	})
}

// Close frames that the server sends first are counted by their code, on both drivers.
func TestCloseFramesAreCounted(t *testing.T) {
	for _, goroutines := range []bool{false, true} {
		totals := new(observe.Totals)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.DiscardHandler), Handlers: h, GoroutineDriver: goroutines, Observer: observe.Observer{Totals: totals}})
		address := nodetest.Serve(t, node, func(next http.Handler) http.Handler { return next })
		for range 2 {
			c := wstest.Dial(t, address, nil)
			c.Connect(`"token":"u"`)
			nodetest.Must(t, node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, &gyro.DisconnectOptions{Disconnect: &kicked}))
			c.Disconnected()
		}
		bad := wstest.Dial(t, address, nil)
		bad.Raw([]byte("nonsense"))
		bad.Disconnected()
		gone := wstest.Dial(t, address, nil)
		gone.Connect(`"token":"v"`)
		gone.Vanish()
		want := map[observe.Close]uint64{{Transport: "websocket", Code: 4100}: 2, {Transport: "websocket", Code: 3501}: 1}
		if diff := cmp.Diff(want, totals.Closes()); diff != "" {
			t.Errorf("goroutines %v (-want +got):\n%s", goroutines, diff)
		}
	}
}
