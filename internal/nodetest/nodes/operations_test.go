package nodes

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
		a := nodetest.Connect(t, node, "a")
		b, err := wstest.Open(t.Context(), t, node, protocol.Protobuf)
		nodetest.Must(t, err)
		b.Connect(`"token":"b"`)
		a.Subscribe("ch", "")
		b.Subscribe("ch", "")
		if res := nodetest.Publish(t, node, "ch", `{"n":1}`); res != (gyro.PublishResult{}) {
			t.Errorf("result %+v", res)
		}
		nodetest.WantPub(t, a, `{"n":1}`)
		nodetest.WantPub(t, b, `{"n":1}`)
		who := &gyro.ClientInfo{User: "w", Client: "c"}
		nodetest.Publish(t, node, "ch", `2`, &gyro.PublishOptions{Tags: map[string]string{"k": "v"}, Info: who})
		p := nodetest.WantPub(t, a, `2`)
		if p.Tags["k"] != "v" || p.Info == nil || p.Info.User != "w" || p.Info.Client != "c" {
			t.Errorf("publication %+v", p)
		}
		a.Do(`"publish":{"channel":"ch","data":3}`)
		if p := nodetest.WantPub(t, a, `3`); p.Info == nil || p.Info.User != "a" {
			t.Errorf("publication %+v", p)
		}
		// Not for subscribers of other channels, nor after the unsubscribe.
		nodetest.Publish(t, node, "other", `4`)
		a.Do(`"unsubscribe":{"channel":"ch"}`)
		nodetest.Publish(t, node, "ch", `5`)
		synctest.Wait()
		if got := a.Pushes(); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		if _, err := node.Publish(t.Context(), "", []byte(`1`), nil); !errors.Is(err, protocol.ErrorBadRequest) {
			t.Errorf("empty channel: %v", err)
		}
	})
}

func TestPublishSuppression(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	o := nodetest.Keep(10, time.Minute)
	o.IdempotencyKey = "k"
	first := nodetest.Publish(t, node, "ch", `1`, o)
	again := nodetest.Publish(t, node, "ch", `1`, o)
	if first.Position.Offset != 1 || first.Suppressed != "" || again.Position != first.Position || again.Suppressed != "idempotency" {
		t.Errorf("results %+v, %+v", first, again)
	}
	o = nodetest.Keep(10, time.Minute)
	o.Version, o.VersionEpoch = 7, "e"
	nodetest.Publish(t, node, "ch", `2`, o)
	if old := nodetest.Publish(t, node, "ch", `3`, o); old.Suppressed != "version" {
		t.Errorf("result %+v", old)
	}
	o.Version, o.Delta, o.HistoryMetaTTL = 8, true, time.Hour
	if res := nodetest.Publish(t, node, "ch", `4`, o); res.Position.Offset != 3 {
		t.Errorf("result %+v", res)
	}
}

func TestJSONClientsGetNoBrokenJSON(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Binary: true, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})})
	a := nodetest.Connect(t, node, "a")
	b, err := wstest.Open(t.Context(), t, node, protocol.Protobuf)
	nodetest.Must(t, err)
	b.Connect("")
	a.Subscribe("ch", "")
	b.Subscribe("ch", "")
	nodetest.Publish(t, node, "ch", "\xff{")
	nodetest.Publish(t, node, "ch", "1")
	nodetest.WantPub(t, a, "1")
	nodetest.WantPub(t, b, "\xff{")
}

func TestBroadcast(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	c := nodetest.Connect(t, node, "a")
	for _, ch := range []string{"1", "2", "3"} {
		c.Subscribe(ch, "")
	}
	results := node.Broadcast(t.Context(), []string{"1", "", "3"}, []byte(`1`), nodetest.Keep(1, time.Minute))
	if len(results) != 3 || results[0].Err != nil || results[2].Err != nil || !errors.Is(results[1].Err, protocol.ErrorBadRequest) ||
		results[2].Position.Offset != 1 {
		t.Errorf("results %+v", results)
	}
	got := map[string]bool{c.Push().Channel: true, c.Push().Channel: true}
	if !got["1"] || !got["3"] {
		t.Errorf("got pushes of %v", got)
	}
}

func TestPublishHandlerDecides(t *testing.T) {
	h := nodetest.Everything(gyro.SubscribeOptions{ChanInfo: []byte(`{"role":"x"}`)}, gyro.PublishOptions{})
	events := make(chan gyro.PublishEvent, 3)
	replies := make(chan gyro.PublishReply, 3)
	h.Publish = func(_ context.Context, _ *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
		events <- e
		return <-replies, nil
	}
	node := nodetest.Run(t, gyro.Config{Handlers: h})
	c := nodetest.Connect(t, node, "a")
	replies <- gyro.PublishReply{}
	c.Do(`"publish":{"channel":"ch","data":1}`)
	if e := wait.Receive(t, "Publish", events); e.Subscribed || e.Info.User != "a" || e.Info.ChanInfo != nil || string(e.Data) != "1" {
		t.Errorf("event %+v", e)
	}
	c.Subscribe("ch", "")
	replies <- gyro.PublishReply{Published: true}
	c.Do(`"publish":{"channel":"ch","data":2}`)
	replies <- gyro.PublishReply{Data: []byte(`"three"`)}
	c.Do(`"publish":{"channel":"ch","data":3}`)
	wait.Receive(t, "Publish", events)
	if e := wait.Receive(t, "Publish", events); !e.Subscribed || string(e.Info.ChanInfo) != `{"role":"x"}` {
		t.Errorf("event %+v", e)
	}
	nodetest.WantPub(t, c, `"three"`)
}

func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
		ctx := t.Context()
		conn := func(user string) (*wstest.Client, string) {
			c := wstest.Pipe(t, node)
			return c, c.Connect(`"token":"` + user + `"`).Client
		}
		a1, id1 := conn("a")
		a2, id2 := conn("a")
		b, _ := conn("b")
		a1.Subscribe("mine", "")

		nodetest.Must(t, node.Users().Subscribe(ctx, gyro.Target{User: "a", Client: id1}, "ch",
			&gyro.SubscribeOptions{Data: []byte(`7`), Presence: true}))
		if p := a1.Push(); p.Subscribe == nil || p.Channel != "ch" || string(p.Subscribe.Data) != `7` {
			t.Errorf("got %+v", p)
		}
		nodetest.Must(t, node.Users().Subscribe(ctx, gyro.Target{User: "a"}, "late", &gyro.SubscribeOptions{ExpireAt: time.Now().Add(time.Minute)}))
		if err := node.Users().Subscribe(ctx, gyro.Target{User: "a"}, "ch", &gyro.SubscribeOptions{ExpireAt: time.Unix(1, 0)}); !errors.Is(err, protocol.ErrorExpired) {
			t.Errorf("expired: %v", err)
		}
		if p := a2.Push(); p.Subscribe == nil || p.Channel != "late" {
			t.Errorf("got %+v", p)
		}
		synctest.Wait()
		channels, err := node.Cluster().Channels(ctx, "")
		nodetest.Must(t, err)
		if want := map[string]int{"ch": 1, "late": 2, "mine": 1}; !maps.Equal(channels, want) {
			t.Errorf("channels %v, want %v", channels, want)
		}
		if i := nodetest.Info(t, node); i.NumClients != 3 || i.NumUsers != 2 || i.NumSubs != 4 || i.NumChannels != 3 {
			t.Errorf("info %+v", i)
		}

		a1.Pushes()
		nodetest.Must(t, node.Users().Unsubscribe(ctx, gyro.Target{User: "a", Client: id1}, "mine", nil))
		if p := a1.Push(); p.Unsubscribe == nil || *p.Unsubscribe != protocol.UnsubscribeServer || p.Channel != "mine" {
			t.Errorf("got %+v", p)
		}
		reason := protocol.Unsubscribe{Code: 2600, Reason: "moved"}
		nodetest.Must(t, node.Users().Unsubscribe(ctx, gyro.Target{User: "a"}, "late", &reason))
		if p := a2.Push(); p.Unsubscribe == nil || *p.Unsubscribe != reason {
			t.Errorf("got %+v", p)
		}

		nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "a"}, &gyro.DisconnectOptions{Whitelist: []string{id2}}))
		nodetest.WantDisconnect(t, a1, protocol.DisconnectForceNoReconnect)
		a2.Do(`"rpc":{}`)
		kick := protocol.Disconnect{Code: 4500, Reason: "bye"}
		nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "a", Client: id2}, &gyro.DisconnectOptions{Disconnect: &kick}))
		nodetest.WantDisconnect(t, a2, kick)
		nodetest.Must(t, node.Users().Disconnect(ctx, gyro.Target{User: "nobody"}, nil))
		b.Do(`"rpc":{}`)
		for name, err := range map[string]error{
			"subscribe": node.Users().Subscribe(ctx, gyro.Target{User: "b"}, "", nil), "unsubscribe": node.Users().Unsubscribe(ctx, gyro.Target{User: "b"}, "", nil),
		} {
			if !errors.Is(err, protocol.ErrorBadRequest) {
				t.Errorf("%s with empty channel: %v", name, err)
			}
		}
	})
}

func TestRefreshByTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{Presence: true}, gyro.PublishOptions{})
		ctx := t.Context()
		c := nodetest.Connect(t, node, "a")
		nodetest.Must(t, node.Users().Refresh(ctx, gyro.Target{User: "a"}, &gyro.RefreshOptions{
			ExpireAt: time.Now().Add(100 * time.Second), Info: []byte(`"new"`),
		}))
		if p := c.Push(); p.Refresh == nil || !p.Refresh.Expires || p.Refresh.TTL != 100 {
			t.Errorf("got %+v", p)
		}
		c.Subscribe("ch", "")
		clients, err := node.Presence(ctx, "ch")
		nodetest.Must(t, err)
		for _, i := range clients {
			if string(i.ConnInfo) != `"new"` {
				t.Errorf("info %s", i.ConnInfo)
			}
		}
		nodetest.Must(t, node.Users().Refresh(ctx, gyro.Target{User: "a"}, nil))
		if p := c.Push(); p.Refresh == nil || p.Refresh.Expires {
			t.Errorf("got %+v", p)
		}
		time.Sleep(5 * time.Minute)
		c.Do(`"rpc":{}`)
		nodetest.Must(t, node.Users().Refresh(ctx, gyro.Target{User: "a"}, &gyro.RefreshOptions{Expired: true}))
		nodetest.WantDisconnect(t, c, protocol.DisconnectExpired)
		d := nodetest.Connect(t, node, "a")
		nodetest.Must(t, node.Users().Refresh(ctx, gyro.Target{User: "a"}, &gyro.RefreshOptions{ExpireAt: time.Unix(1, 0)}))
		nodetest.WantDisconnect(t, d, protocol.DisconnectExpired)
	})
}

func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{Presence: true}, gyro.PublishOptions{})
		ctx := t.Context()
		a, b, c := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "c")
		for _, x := range []*wstest.Client{a, b, c} {
			x.Subscribe("ch", "")
		}
		stats, err := node.PresenceStats(ctx, "ch")
		nodetest.Must(t, err)
		if stats != (gyro.PresenceStats{Clients: 3, Users: 2}) {
			t.Errorf("stats %+v", stats)
		}
		// It is renewed for as long as they stay.
		time.Sleep(10 * time.Minute)
		clients, err := node.Presence(ctx, "ch")
		nodetest.Must(t, err)
		if len(clients) != 3 {
			t.Errorf("clients %v", clients)
		}
		if got := a.Do(`"presence":{"channel":"ch"}`).Presence.Presence; len(got) != 3 {
			t.Errorf("clients %v", got)
		}
		if got := a.Do(`"presence_stats":{"channel":"ch"}`).PresenceStats; got.NumClients != 3 || got.NumUsers != 2 {
			t.Errorf("stats %+v", got)
		}
		a.Vanish()
		b.Do(`"unsubscribe":{"channel":"ch"}`)
		synctest.Wait()
		clients, err = node.Presence(ctx, "ch")
		nodetest.Must(t, err)
		if len(clients) != 1 {
			t.Errorf("clients %v", clients)
		}
	})
}

func TestHistory(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{HistorySize: 100, HistoryTTL: time.Minute})
	ctx := t.Context()
	c := nodetest.Connect(t, node, "a")
	for _, data := range []string{"1", "2", "3", "4", "5"} {
		c.Do(`"publish":{"channel":"ch","data":` + data + `}`)
	}
	top, err := node.History(ctx, "ch", nil)
	nodetest.Must(t, err)
	if len(top.Publications) != 0 || top.Top.Offset != 5 || top.Top.Epoch == "" {
		t.Errorf("top %+v", top)
	}
	at := func(offset uint64) *gyro.StreamPosition {
		return &gyro.StreamPosition{Offset: offset, Epoch: top.Top.Epoch}
	}
	for _, tc := range []struct {
		filter gyro.HistoryFilter
		want   string
	}{
		{gyro.HistoryFilter{Limit: -1}, "12345"},
		{gyro.HistoryFilter{Limit: 2, MetaTTL: time.Hour}, "12"},
		{gyro.HistoryFilter{Limit: -1, Reverse: true}, "54321"},
		{gyro.HistoryFilter{Limit: -1, Since: at(3)}, "45"},
		{gyro.HistoryFilter{Limit: -1, Since: at(3), Reverse: true}, "21"},
		{gyro.HistoryFilter{Limit: -1, Since: at(5)}, ""},
	} {
		h, err := node.History(ctx, "ch", &tc.filter)
		nodetest.Must(t, err)
		got := ""
		for _, p := range h.Publications {
			got += string(p.Data)
		}
		if got != tc.want || h.Top != top.Top {
			t.Errorf("got %q, top %v; want %q", got, h.Top, tc.want)
		}
	}
	h, err := node.History(ctx, "ch", &gyro.HistoryFilter{Limit: -1, Since: &gyro.StreamPosition{Offset: 1, Epoch: "other"}})
	if !errors.Is(err, protocol.ErrorUnrecoverablePosition) || h.Top != top.Top {
		t.Errorf("other epoch: %v, %v", h, err)
	}
	if _, err := node.History(ctx, "ch", &gyro.HistoryFilter{Reverse: true, Since: at(0)}); !errors.Is(err, protocol.ErrorBadRequest) {
		t.Errorf("reverse since 0: %v", err)
	}
	got := c.Do(`"history":{"channel":"ch","limit":2,"since":{"offset":1,"epoch":"` + top.Top.Epoch + `"}}`).History
	if len(got.Publications) != 2 || got.Publications[0].Offset != 2 || got.Offset != 5 || got.Publications[0].Info.User != "a" {
		t.Errorf("client got %+v", got)
	}
	nodetest.Must(t, node.RemoveHistory(ctx, "ch"))
	h, err = node.History(ctx, "ch", &gyro.HistoryFilter{Limit: -1})
	nodetest.Must(t, err)
	if d := cmp.Diff(gyro.History{Top: top.Top}, h); d != "" && len(h.Publications) != 0 {
		t.Error(d)
	}
}

func TestUserConnectionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{UserConnectionLimit: 2, Handlers: gyro.Handlers{Connecting: nodetest.As}})
		a := nodetest.Connect(t, node, "a")
		nodetest.Connect(t, node, "a")
		over := wstest.Pipe(t, node)
		over.Start(`"connect":{"token":"a"}`)
		nodetest.WantDisconnect(t, over, protocol.DisconnectConnectionLimit)
		for range 5 {
			nodetest.Connect(t, node, "")
		}
		a.Vanish()
		synctest.Wait()
		nodetest.Connect(t, node, "a")
		if i := nodetest.Info(t, node); i.NumClients != 7 || i.NumUsers != 2 {
			t.Errorf("info %+v", i)
		}
	})
}

func TestJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Open(t, gyro.SubscribeOptions{EmitJoinLeave: true, PushJoinLeave: true}, gyro.PublishOptions{})
		join := func(c *wstest.Client, want string) {
			t.Helper()
			if p := c.Push(); p.Join == nil || p.Join.Info.User != want || p.Channel != "ch" {
				t.Errorf("got %+v, want a join of %s", p, want)
			}
		}
		leave := func(c *wstest.Client, want string) {
			t.Helper()
			if p := c.Push(); p.Leave == nil || p.Leave.Info.User != want {
				t.Errorf("got %+v, want a leave of %s", p, want)
			}
		}
		a, b, c := nodetest.Connect(t, node, "a"), nodetest.Connect(t, node, "b"), nodetest.Connect(t, node, "c")
		a.Subscribe("ch", "")
		join(a, "a")
		b.Subscribe("ch", "")
		join(a, "b")
		join(b, "b")
		b.Do(`"unsubscribe":{"channel":"ch"}`)
		leave(a, "b")
		c.Subscribe("ch", "")
		join(a, "c")
		c.Vanish()
		leave(a, "c")
		synctest.Wait()
		if got := append(a.Pushes(), b.Pushes()...); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestServerSideSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu    sync.Mutex
			ended []gyro.UnsubscribeEvent
		)
		client := make(chan *gyro.Client, 1)
		h := gyro.Handlers{
			Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{
					Credentials: &gyro.Credentials{UserID: e.Token},
					Subscriptions: map[string]gyro.SubscribeOptions{
						"news":     {Data: []byte(`1`)},
						"personal": {Recoverable: true, Presence: true},
					},
				}, nil
			},
			Connected: func(_ context.Context, c *gyro.Client) { client <- c },
			Unsubscribed: func(_ context.Context, _ *gyro.Client, e gyro.UnsubscribeEvent) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, e)
			},
		}
		node := nodetest.Run(t, gyro.Config{Handlers: h})
		history := nodetest.Keep(10, time.Minute)
		nodetest.Publish(t, node, "personal", `1`, history)
		c := wstest.Pipe(t, node)
		subs := c.Connect(`"token":"u"`).Subs
		if len(subs) != 2 || string(subs["news"].Data) != `1` || !subs["personal"].Recoverable || subs["personal"].Offset != 1 {
			t.Errorf("subs %+v", subs)
		}
		nodetest.Publish(t, node, "personal", `2`, history)
		nodetest.WantPub(t, c, `2`)

		me := <-client
		me.Send([]byte(`"hi"`))
		if p := c.Push(); p.Message == nil || string(p.Message.Data) != `"hi"` {
			t.Errorf("got %+v", p)
		}
		me.Subscribe("later", &gyro.SubscribeOptions{Recoverable: true, RecoverSince: &gyro.StreamPosition{}})
		if p := c.Push(); p.Subscribe == nil || p.Channel != "later" || !p.Subscribe.Positioned {
			t.Errorf("got %+v", p)
		}
		me.Unsubscribe("later")
		if p := c.Push(); p.Unsubscribe == nil || p.Unsubscribe.Code != 2000 {
			t.Errorf("got %+v", p)
		}

		// Away and back: what was missed comes with the connect result.
		c.Vanish()
		synctest.Wait()
		nodetest.Publish(t, node, "personal", `3`, history)
		d := wstest.Pipe(t, node)
		res := d.Connect(`"token":"u","subs":{"personal":{"recover":true,"offset":2,"epoch":"` + subs["personal"].Epoch + `"}}`)
		if r := res.Subs["personal"]; !r.Recovered || len(r.Publications) != 1 || string(r.Publications[0].Data) != `3` {
			t.Errorf("got %+v", r)
		}
		(<-client).Disconnect(protocol.DisconnectForceReconnect)
		nodetest.WantDisconnect(t, d, protocol.DisconnectForceReconnect)
		synctest.Wait()
		if len(ended) != 5 || !ended[0].ServerSide || ended[0].Channel != "later" || ended[1].Unsubscribe != protocol.UnsubscribeDisconnect {
			t.Errorf("Unsubscribed got %+v", ended)
		}
	})
}

func TestChannelLimitAtConnect(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{ChannelLimit: 1, Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{}, Subscriptions: map[string]gyro.SubscribeOptions{"a": {}, "b": {}}}, nil
		},
	}})
	c := wstest.Pipe(t, node)
	c.Start(`"connect":{}`)
	nodetest.WantDisconnect(t, c, protocol.DisconnectChannelLimit)
}

// A connection without a session is selected by none: nothing happens, which is no error.
// The connections that have one are in package connections.
func TestNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, node := t.Context(), nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: nodetest.As}})
		c := nodetest.Connect(t, node, "u")
		for _, session := range []string{"secret", uuid.NewString(), uuid.Nil.String()} {
			to := gyro.Target{User: "u", Session: session}
			nodetest.Must(t, node.Users().Subscribe(ctx, to, "ch", nil))
			nodetest.Must(t, node.Users().Unsubscribe(ctx, to, "ch", nil))
			nodetest.Must(t, node.Users().Disconnect(ctx, to, nil))
			nodetest.Must(t, node.Users().Refresh(ctx, to, nil))
		}
		nodetest.Must(t, node.Users().Subscribe(ctx, gyro.Target{User: "u", Session: ""}, "ch", nil))
		if p := c.Push(); p.Subscribe == nil || p.Channel != "ch" {
			t.Errorf("got %+v", p)
		}
	})
}

// The length of a channel's name holds for subscriptions that handlers and the node make.
func TestChannelMaxLengthOfServer(t *testing.T) {
	ctx := context.Background()
	node := nodetest.Run(t, gyro.Config{ChannelMaxLength: 4, Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			reply := gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}}
			if e.Token != "" {
				reply.Subscriptions = map[string]gyro.SubscribeOptions{e.Token: {}}
			}
			return reply, nil
		},
		RPC: func(_ context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			c.Subscribe(e.Method, nil)
			return nil, nil
		},
	}})
	if r := wstest.Pipe(t, node).Call(`"connect":{"token":"12345"}`); r.Error == nil || r.Error.Code != protocol.ErrorBadRequest.Code {
		t.Errorf("got %+v", r)
	}
	c := nodetest.Connect(t, node, "1234")
	c.Do(`"rpc":{"method":"12345"}`)
	c.Do(`"rpc":{"method":"b"}`)
	if p := c.Push(); p.Channel != "b" || p.Subscribe == nil {
		t.Errorf("got %+v", p)
	}
	if err := node.Users().Subscribe(ctx, gyro.Target{User: "u"}, "12345", nil); !errors.Is(err, protocol.ErrorBadRequest) {
		t.Errorf("Subscribe: %v", err)
	}
	if channels, err := node.Cluster().Channels(ctx, ""); err != nil || len(channels) != 2 {
		t.Errorf("%v, %v", channels, err)
	}
}

// Subscriptions tells what it knows, or why it knows nothing.
func TestSubscriptions(t *testing.T) {
	clients := make(chan *gyro.Client, 1)
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Connected = func(_ context.Context, c *gyro.Client) { clients <- c }
	node := nodetest.Run(t, gyro.Config{Handlers: h})
	c := nodetest.Connect(t, node, "u")
	c.Subscribe("mine", "")
	me := wait.Receive(t, "Connected", clients)
	me.Subscribe("given", &gyro.SubscribeOptions{Source: 7})
	c.Push()
	subs, err := me.Subscriptions(t.Context())
	nodetest.Must(t, err)
	want := map[string]gyro.SubscriptionInfo{"mine": {}, "given": {ServerSide: true, Source: 7}}
	if !maps.Equal(subs, want) {
		t.Errorf("got %v, want %v", subs, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// With a context that has ended, either may come first.
	if subs, err := me.Subscriptions(ctx); err != nil && (!errors.Is(err, context.Canceled) || subs != nil) {
		t.Errorf("got %v, %v", subs, err)
	}
	nodetest.Must(t, node.Shutdown(t.Context()))
	if subs, err := me.Subscriptions(t.Context()); !errors.Is(err, protocol.DisconnectShutdown) || subs != nil {
		t.Errorf("after the shutdown: %v, %v", subs, err)
	}
}
