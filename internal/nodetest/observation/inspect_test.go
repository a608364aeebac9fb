package observation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// labelled accepts every client, with labels and meta.
func labelled(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	reply, err := nodetest.As(ctx, e)
	reply.Labels = map[string]string{"plan": "of " + e.Token}
	reply.Credentials.Meta = []byte(`{"token":"` + e.Token + `"}`)
	return reply, err
}

// All nodes tell of the connections that a filter selects.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Everything(gyro.SubscribeOptions{Positioned: true, Source: 7}, gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute})
		h.Connecting = labelled
		x := nodetest.NewTrio(t, h)
		for i, user := range []string{"ann", "bob", "ann"} {
			c := wstest.Pipe(t, x.Nodes[i])
			c.Connect(fmt.Sprintf(`"token":%q,"name":"js","version":"5.%d"`, user, i))
			c.Subscribe("ch", "")
			c.Subscribe(fmt.Sprint("own", i), "")
			if i == 0 {
				c.Publish("ch", `{}`)
			}
			time.Sleep(time.Second)
		}
		list := func(f inspect.Filter) inspect.Connections {
			t.Helper()
			got, err := x.Nodes[1].Inspect().Connections(t.Context(), f)
			nodetest.Must(t, err)
			return got
		}
		names := func(f inspect.Filter) string {
			var all []string
			for _, c := range list(f).List {
				all = append(all, c.User+c.AppVersion)
			}
			return strings.Join(all, " ")
		}
		first := list(inspect.Filter{User: "ann"}).List[0]
		for _, tt := range []struct {
			f    inspect.Filter
			want string
		}{
			{inspect.Filter{}, "ann5.0 bob5.1 ann5.2"},
			{inspect.Filter{User: "ann"}, "ann5.0 ann5.2"},
			{inspect.Filter{User: "nobody"}, ""},
			{inspect.Filter{Channel: "ch"}, "ann5.0 bob5.1 ann5.2"},
			{inspect.Filter{Channel: "ch", User: "bob"}, "bob5.1"},
			{inspect.Filter{Channel: "own2"}, "ann5.2"},
			{inspect.Filter{Client: first.Client}, "ann5.0"},
			{inspect.Filter{Client: first.Client, User: "bob"}, ""},
			{inspect.Filter{Client: "no UUID"}, ""},
			{inspect.Filter{Labels: &protocol.FilterNode{Key: "plan", Cmp: "eq", Val: "of bob"}}, "bob5.1"},
			{inspect.Filter{Limit: 2}, "ann5.0 bob5.1"},
		} {
			if got := names(tt.f); got != tt.want {
				t.Errorf("%+v selects %q, want %q", tt.f, got, tt.want)
			}
		}
		if l := list(inspect.Filter{Limit: 2}); !l.More {
			t.Error("the answer does not say that there is more")
		}
		own := first.Channels["own0"]
		if own.Epoch == "" || first.Latency >= 0 {
			t.Errorf("before the first ping: %+v", first)
		}
		want := fmt.Sprintf("%+v", inspect.Connection{
			Client: first.Client, User: "ann", Node: x.Nodes[0].UID(), Transport: first.Transport, Protocol: "json", AppName: "js", AppVersion: "5.0",
			Addr: first.Addr, ConnectedAt: time.UnixMilli(first.ConnectedAt.UnixMilli()), Latency: first.Latency,
			Labels: map[string]string{"plan": "of ann"}, Meta: []byte(`{"token":"ann"}`),
			Channels: map[string]inspect.Subscription{
				"ch": {Source: 7, Positioned: true, Offset: 1, Epoch: first.Channels["ch"].Epoch}, "own0": {Source: 7, Positioned: true, Epoch: own.Epoch},
			},
		})
		if got := fmt.Sprintf("%+v", first); got != want || time.Since(first.ConnectedAt) != 3*time.Second {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		time.Sleep(30 * time.Second)
		if got := list(inspect.Filter{Client: first.Client}).List[0].Latency; got != 0 {
			t.Errorf("the latency is %v after a pong at once", got)
		}
		for _, bad := range []inspect.Filter{{Limit: -1}, {Limit: inspect.MaxLimit + 1}, {Labels: &protocol.FilterNode{Cmp: "what"}}} {
			if _, err := x.Nodes[0].Inspect().Connections(t.Context(), bad); !errors.Is(err, gyro.ErrorBadRequest) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		x.Engines[2].Cut(true)
		got, err := x.Nodes[1].Inspect().Connections(t.Context(), inspect.Filter{User: "ann"})
		if !errors.Is(err, gyro.ErrNoAnswer) || !strings.Contains(err.Error(), x.Nodes[2].UID()) || len(got.List) != 1 {
			t.Errorf("without a node: %+v, %v", got, err)
		}
	})
}

// happened are the events of a query, without times and IDs.
func happened(t *testing.T, n *gyro.Node, q inspect.Query) string {
	t.Helper()
	synctest.Wait()
	log, err := n.Inspect().Flight(t.Context(), q)
	nodetest.Must(t, err)
	var lines []string
	for _, e := range log.Events {
		if e.Time.After(time.Now()) || e.Node == "" {
			t.Errorf("%+v", e)
		}
		text := fmt.Sprintf("%v %s %s %d %d %s %s %s", e.Kind, e.User, e.Channel, e.Code, e.Count, e.What, e.Text, e.Key)
		lines = append(lines, strings.Join(strings.Fields(text), " "))
	}
	return strings.Join(lines, "\n")
}

// The flight recorders of all nodes tell what happened to a user.
func TestFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{HistorySize: 2, HistoryTTL: time.Minute})
		subscribe := h.Subscribe
		h.Subscribe = func(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Channel == "secret" {
				return gyro.SubscribeReply{}, refusal.Because(gyro.ErrorPermissionDenied, "Config.Secret", "it is secret")
			}
			return subscribe(ctx, c, e)
		}
		x := nodetest.NewTrio(t, h)
		c := nodetest.Connect(t, x.Nodes[0], "ann")
		nodetest.Connect(t, x.Nodes[2], "bob")
		res := c.Subscribe("ch", "")
		c.Outcome(`"subscribe":{"channel":"secret"}`)
		for range 3 {
			_, err := x.Nodes[1].Publish(t.Context(), "ch", []byte(`{}`), &gyro.PublishOptions{HistorySize: 2, HistoryTTL: time.Minute})
			nodetest.Must(t, err)
		}
		nodetest.Must(t, x.Nodes[1].Users().Unsubscribe(t.Context(), gyro.Target{User: "ann"}, "ch", nil))
		time.Sleep(2 * time.Second)
		c.Subscribe("ch", fmt.Sprintf(`"recover":true,"offset":0,"epoch":%q`, res.Epoch))
		nodetest.Must(t, x.Nodes[1].Users().Disconnect(t.Context(), gyro.Target{User: "ann"}, nil))
		time.Sleep(time.Second)
		c = nodetest.Connect(t, x.Nodes[2], "ann")
		c.Subscribe("ch", fmt.Sprintf(`"recover":true,"offset":2,"epoch":%q`, res.Epoch))
		want := strings.TrimSpace(`
connected ann pipe
subscribed ann ch 0 0
refused ann secret 103 0 subscribe refused it is secret Config.Secret
unsubscribed ann ch 2000 0 server unsubscribe
not_recovered ann ch 0 0
subscribed ann ch 0 0
disconnected ann 3503 0 force disconnect
connected ann pipe
recovered ann ch 0 1
subscribed ann ch 0 0`)
		want = strings.ReplaceAll(want, "pipe", "0 0 "+transportOf(t, x.Nodes[0]))
		if got := happened(t, x.Nodes[1], inspect.Query{User: "ann"}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		for _, tt := range []struct {
			q    inspect.Query
			want int
		}{
			{inspect.Query{}, 11},
			{inspect.Query{User: "bob"}, 1},
			{inspect.Query{Channel: "ch"}, 6},
			{inspect.Query{User: "ann", Channel: "secret"}, 1},
			{inspect.Query{Since: time.Now().Add(-time.Second)}, 6},
			{inspect.Query{User: "ann", Limit: 3}, 3},
		} {
			if got := strings.Count(happened(t, x.Nodes[0], tt.q), "\n") + 1; got != tt.want {
				t.Errorf("%+v: %d events, want %d:\n%s", tt.q, got, tt.want, happened(t, x.Nodes[0], tt.q))
			}
		}
		if log, _ := x.Nodes[0].Inspect().Flight(t.Context(), inspect.Query{User: "ann", Limit: 3}); !log.More || !log.From.IsZero() {
			t.Errorf("more %v, from %v", log.More, log.From)
		}
	})
}

// renewed is an engine over a network whose stream of the channel "checked" begins anew when a test wants it.
type renewed struct {
	broker.Broker
	handler broker.EventHandler
	anew    atomic.Bool
}

func (r *renewed) Run(h broker.EventHandler) error {
	r.handler = h
	return r.Broker.Run(h)
}

func (r *renewed) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	h, err := r.Broker.History(ctx, ch, f)
	if ch == "checked" && r.anew.Load() {
		h.Top.Epoch = "C"
	}
	return h, err
}

// A stream that has begun anew is an event, whoever of many subscribers notices it first: by a publication, by a
// check of positions, or when a client comes back.
func TestNewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &renewed{Broker: nodetest.Plain(memory.New(memory.Config{}))}
		node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Broker: r, Handlers: nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})})
		epochs := make(map[string]string)
		var clients []*wstest.Client
		for i := range 5 {
			c := nodetest.Connect(t, node, fmt.Sprint(i))
			for _, ch := range []string{"published", "checked", "recovered"} {
				epochs[ch] = c.Subscribe(ch, "").Epoch
			}
			clients = append(clients, c)
		}
		told := func() {
			t.Helper()
			for _, c := range clients {
				synctest.Wait()
				if p := c.Pushes(); len(p) != 1 || p[0].Unsubscribe == nil || *p[0].Unsubscribe != protocol.UnsubscribeInsufficientState {
					t.Errorf("got %+v, want the end of the subscription", p)
				}
			}
		}
		r.handler.HandlePublication("published", broker.PublicationEvent{Epoch: "B", Pub: &channel.Publication{Offset: 1, Data: []byte("1")}})
		told()
		r.anew.Store(true)
		r.handler.HandleLoss(func(ch string) bool { return ch == "checked" })
		time.Sleep(time.Minute) // at most until the check
		told()
		if got := nodetest.Connect(t, node, "ann").Subscribe("recovered", `"recover":true,"offset":3,"epoch":"A"`); got.Recovered {
			t.Errorf("%+v", got)
		}
		nodetest.Connect(t, node, "ann").Subscribe("recovered", `"recover":true,"offset":0,"epoch":"`+epochs["recovered"]+`"`)
		for ch, want := range map[string]string{
			"published": "publication epoch " + epochs["published"] + " became B", "checked": "check epoch " + epochs["checked"] + " became C",
			"recovered": "recovery epoch A became " + epochs["recovered"],
		} {
			want = "new_epoch " + ch + " 0 0 " + want
			if got := happened(t, node, inspect.Query{Channel: ch}); strings.Count(got, "new_epoch") != 1 || !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant once\n%s", got, want)
			}
		}
		want := "not_recovered ann recovered 0 0 the stream has begun anew\nsubscribed ann recovered 0 0\nrecovered ann recovered 0 0\nsubscribed ann recovered 0 0"
		if got := happened(t, node, inspect.Query{User: "ann", Channel: "recovered"}); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// Channels of a connect command that the application does not give are events with the user, whether the client
// gets in without them or not. However many a command names, a bounded number is recorded.
func TestIgnoredChannels(t *testing.T) { synctest.Test(t, testIgnoredChannels) }

func testIgnoredChannels(t *testing.T) {
	var calls atomic.Int32
	node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: gyro.Handlers{Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		reply, err := nodetest.As(ctx, e)
		reply.Ignored = make(map[string]error)
		for ch := range e.Subs {
			reply.Ignored[ch] = refusal.Because(gyro.ErrorPermissionDenied, "Config.Secret", "it is secret")
		}
		switch {
		case e.Inline:
			calls.Add(1)
			return reply, gyro.ErrWouldBlock
		case e.Token == "out":
			err = refusal.Because(protocol.DisconnectPermissionDenied, "Config.Secret", "it is secret")
		}
		return reply, err
	}}})
	connectWith := func(user, subs string) (outcome string) {
		outcome, _ = wstest.Pipe(t, node).Outcome(`"connect":{"token":"` + user + `","subs":{` + subs + `}}`)
		return outcome
	}
	if got := connectWith("ann", `"a":{}`); got != "ok" {
		t.Error(got)
	}
	if got, want := happened(t, node, inspect.Query{User: "ann"}), "refused ann a 0 0 channel of a connect command ignored it is secret Config.Secret\nconnected ann 0 0 pipe"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := connectWith("out", `"a":{}`); got != "disconnect 3507" {
		t.Error(got)
	}
	if got, want := happened(t, node, inspect.Query{User: "out"}), "refused out a 3507 0 channel of a connect command refused it is secret Config.Secret"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"c%d":{}`, i))
	}
	connectWith("bob", strings.Join(many, ","))
	got := happened(t, node, inspect.Query{User: "bob", Limit: 100})
	if strings.Count(got, "refused bob c") != 32 || !strings.Contains(got, "968 further channels") || strings.Count(got, "\n") != 33 {
		t.Errorf("got\n%s", got)
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls on a loop", calls.Load())
	}
}

// transportOf is the name of the tests' transport.
func transportOf(t *testing.T, n *gyro.Node) string {
	t.Helper()
	found, err := n.Inspect().Connections(t.Context(), inspect.Filter{Limit: 1})
	nodetest.Must(t, err)
	if len(found.List) == 0 {
		return "pipe"
	}
	return found.List[0].Transport
}

// A recorder that is off costs nothing and answers nothing.
func TestFlightOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{FlightRecorder: -1, Handlers: gyro.Handlers{Connecting: nodetest.As}})
		nodetest.Connect(t, node, "ann")
		if got := happened(t, node, inspect.Query{}); got != "" {
			t.Error(got)
		}
	})
}
