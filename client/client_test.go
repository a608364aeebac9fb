package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = wait.Limit

func encodings(t *testing.T, test func(t *testing.T, e protocol.Encoding)) {
	for name, e := range map[string]protocol.Encoding{"JSON": protocol.JSON, "Protobuf": protocol.Protobuf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// setup has a node on which every channel is a stream, except that "closed" is closed.
func setup() gyro.Config {
	return gyro.Config{Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Hour}), Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			if e.Token == "wrong" {
				return gyro.ConnectReply{}, protocol.ErrorUnauthorized
			}
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}, Data: []byte(`{"hello":1}`)}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Channel == "closed" {
				return gyro.SubscribeReply{}, protocol.ErrorPermissionDenied
			}
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
				Recoverable: true, Positioned: true, Presence: true, AllowDelta: true,
			}}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			return e.Data, nil
		},
	}}
}

func dial(t *testing.T, url string, o client.Options) *client.Client {
	t.Helper()
	o.MinDelay = time.Millisecond
	o.Timeout = cmp.Or(o.Timeout, patience) // the default is too short for a busy machine
	c, err := client.New(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func events(t *testing.T, seq iter.Seq[client.Event]) func() client.Event {
	next, stop := iter.Pull(seq)
	t.Cleanup(stop)
	return func() client.Event {
		e, _ := next()
		return e
	}
}

func await[E client.Event](t *testing.T, next func() client.Event) E {
	t.Helper()
	for {
		switch e := next().(type) {
		case E:
			return e
		case nil:
			t.Fatalf("the events end before a %T", *new(E))
		}
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func subscribe(t *testing.T, c *client.Client, channel string, o *client.SubscribeOptions) (*client.Subscription, func() client.Event) {
	t.Helper()
	s, err := c.NewSubscription(channel, o)
	if err != nil {
		t.Fatal(err)
	}
	next := events(t, s.Events(within(t)))
	s.Subscribe()
	if err := s.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	return s, next
}

// TestCommands: all commands, and the events that they cause.
func TestCommands(t *testing.T) {
	t.Parallel()
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		server, ctx := gyrotest.NewServer(t, setup()), within(t)
		c := dial(t, server.URL, client.Options{Encoding: e})
		own := events(t, c.Events(ctx))
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		if hello := await[client.ConnectedEvent](t, own); hello.Client == "" || string(hello.Data) != `{"hello":1}` {
			t.Errorf("%+v", hello)
		}
		if data, err := c.RPC(ctx, "echo", []byte(`{"a":1}`)); err != nil || string(data) != `{"a":1}` {
			t.Errorf("%q %v", data, err)
		}
		s, next := subscribe(t, c, "news", nil)
		if err := s.Publish(ctx, []byte(`"one"`)); err != nil {
			t.Fatal(err)
		}
		if p := await[client.PublicationEvent](t, next); string(p.Data) != `"one"` || p.Offset != 1 || p.Info.User != "ann" || p.Channel != "news" {
			t.Errorf("%+v", p)
		}
		if h, err := s.History(ctx, client.HistoryOptions{Limit: -1}); err != nil || len(h.Publications) != 1 || h.Top.Offset != 1 {
			t.Errorf("%+v %v", h, err)
		}
		if p, ok := s.Position(); !ok || p.Offset != 1 || p.Epoch == "" {
			t.Errorf("%v %v", p, ok)
		}
		_, err := s.Presence(ctx)
		if refused := (*client.Error)(nil); !errors.As(err, &refused) || refused.Code != 103 && refused.Code != 108 {
			t.Errorf("%v", err)
		}
	})
}

// TestRefused: what the server refuses for good is told, and not tried again.
func TestRefused(t *testing.T) {
	t.Parallel()
	server, ctx := gyrotest.NewServer(t, setup()), within(t)
	c := dial(t, server.URL, client.Options{Token: "wrong"})
	var why client.Reason
	if err := c.Connect(ctx); !errors.As(err, &why) || why.Code != 101 {
		t.Errorf("%v", err)
	}
	if state, reason := c.State(); state != client.Disconnected || reason != why {
		t.Error(state, reason)
	}
	c = dial(t, server.URL, client.Options{})
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := c.NewSubscription("closed", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Subscribe()
	if err := s.Ready(ctx); !errors.As(err, &why) || why.Code != 103 {
		t.Errorf("%v", err)
	}
	if _, err := c.NewSubscription("closed", nil); err == nil {
		t.Error("two subscriptions to a channel")
	}
	if _, err := client.New("ftp://x", client.Options{}); err == nil {
		t.Error("ftp")
	}
}

// TestConnectTells: a Connect that its context ends tells why the last attempt failed.
func TestConnectTells(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	at := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, one := range map[string]struct{ url, want string }{
		"nobody listens":   {"ws://" + porttest.Address(t) + "/connection/websocket", "connection refused"},
		"wrong path":       {at(http.NotFoundHandler()) + "/wrong", "status 404 Not Found"},
		"no WebSocket":     {at(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), "200"},
		"unknown host":     {"ws://gyro.invalid/", "gyro.invalid"},
		"refused for good": {server.URL, "101"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, one.url, client.Options{Token: "wrong"})
			over, giveUp := context.WithCancelCause(within(t))
			enough := errors.New("that is enough")
			all := c.Events(within(t))
			go func() {
				for e := range all {
					if _, failed := e.(client.ErrorEvent); failed {
						giveUp(enough)
					}
				}
			}()
			err := c.Connect(over)
			if !strings.Contains(fmt.Sprint(err), one.want) || !errors.Is(err, enough) && !errors.Is(err, client.ErrDisconnected) {
				t.Errorf("%v, want %s", err, one.want)
			}
			c.Close()
		})
	}
}

// TestText: events print payloads as text.
func TestText(t *testing.T) {
	t.Parallel()
	info := &client.ClientInfo{User: "ann", Client: "c", ConnInfo: []byte(`{"a":1}`)}
	p := client.Publication{Channel: "news", Data: []byte(`{"b":2}`), Offset: 7, Info: info}
	for _, one := range []struct {
		event any
		want  []string
	}{
		{client.PublicationEvent{Publication: p}, []string{"Channel:news", `Data:{"b":2}`, "Offset:7", `Info:{User:ann`, `ConnInfo:{"a":1}`}},
		{client.Message[int]{Publication: p, Value: 42}, []string{`Data:{"b":2}`, "Value:42"}},
		{client.StateEvent{Channel: "news", Entries: []client.Publication{p}}, []string{`Data:{"b":2}`}},
		{client.MessageEvent{Data: p.Data}, []string{`Data:{"b":2}`}},
		{client.ConnectedEvent{Client: "c", Data: p.Data}, []string{"Client:c", `Data:{"b":2}`}},
		{client.SubscribedEvent{Channel: "news", Recovered: true, Data: p.Data}, []string{"Recovered:true", `Data:{"b":2}`}},
		{client.JoinEvent{Channel: "news", Info: *info}, []string{"User:ann", `ConnInfo:{"a":1}`}},
		{client.Publication{}, []string{"Info:<nil>"}},
	} {
		text := fmt.Sprintf("%+v", one.event)
		for _, want := range one.want {
			if !strings.Contains(text, want) {
				t.Errorf("%T: %s, want %s", one.event, text, want)
			}
		}
	}
}

// TestRecovery: a client that is sent away comes back, and gets what it missed, once.
func TestRecovery(t *testing.T) {
	t.Parallel()
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		server, ctx := gyrotest.NewServer(t, setup()), within(t)
		c := dial(t, server.URL, client.Options{Encoding: e})
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		s, next := subscribe(t, c, "news", &client.SubscribeOptions{Delta: true})
		publish := func(n int) {
			t.Helper()
			for range n {
				text := `{"text":"always the same, always the same, always the same, but for a number","n":` + string(rune('0'+n)) + `}`
				if _, err := server.Node.Publish(ctx, "news", []byte(text), &gyro.PublishOptions{Delta: true}); err != nil {
					t.Fatal(err)
				}
			}
		}
		expect := func(offsets ...uint64) {
			t.Helper()
			for _, offset := range offsets {
				if p := await[client.PublicationEvent](t, next); p.Offset != offset || len(p.Data) < 70 {
					t.Errorf("%d %q", p.Offset, p.Data)
				}
			}
		}
		publish(2)
		expect(1, 2)
		if err := server.Node.Users().Disconnect(ctx, gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}); err != nil {
			t.Fatal(err)
		}
		publish(3)
		await[client.SubscribingEvent](t, next)
		if e := await[client.SubscribedEvent](t, next); !e.WasRecovering || !e.Recovered {
			t.Errorf("%+v", e)
		}
		expect(3, 4, 5)
		publish(1)
		expect(6)
		c.Disconnect()
		if state, _ := s.State(); state != client.Subscribing {
			t.Error(state)
		}
		pubs, stop := iter.Pull2(s.Publications(ctx))
		defer stop()
		publish(9)
		publish(4)
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		var gap *client.GapError
		if _, err, _ := pubs(); !errors.As(err, &gap) || gap.To.Offset != 19 {
			t.Errorf("%v", err)
		}
		publish(1)
		if p, err, _ := pubs(); err != nil || p.Offset != 20 {
			t.Errorf("%+v %v", p, err)
		}
	})
}

// TestUnsubscribe: by the client, and by the server, for good and for a moment.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	server, ctx := gyrotest.NewServer(t, setup()), within(t)
	c := dial(t, server.URL, client.Options{})
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	s, next := subscribe(t, c, "news", nil)
	unsubscribe := func(code uint32) {
		t.Helper()
		if err := server.Node.Users().Unsubscribe(ctx, gyro.Target{User: "ann"}, "news", &protocol.Unsubscribe{Code: code, Reason: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	await[client.SubscribedEvent](t, next)
	unsubscribe(2500)
	if e := await[client.SubscribedEvent](t, next); !e.Recovered {
		t.Errorf("%+v", e)
	}
	unsubscribe(2502)
	if e := await[client.SubscribedEvent](t, next); e.Recovered || !e.WasRecovering {
		t.Errorf("%+v", e)
	}
	unsubscribe(2000)
	if e := await[client.UnsubscribedEvent](t, next); e.Reason != (client.Reason{Code: 2000, Text: "r"}) {
		t.Errorf("%+v", e)
	}
	for range 20 { // answers to commands of before must not disturb
		s.Subscribe()
		s.Unsubscribe()
	}
	s.Subscribe()
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(ctx, []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	await[client.PublicationEvent](t, next)
	s.Close()
	if e := await[client.UnsubscribedEvent](t, next); e.Reason != client.UnsubscribeCalled {
		t.Errorf("%+v", e)
	}
	if e := next(); e != nil {
		t.Errorf("%+v after the end", e)
	}
	subscribe(t, c, "news", nil)
}

// TestServerSide: subscriptions that the server makes.
func TestServerSide(t *testing.T) {
	t.Parallel()
	cfg := setup()
	cfg.Handlers.Connecting = func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}, Subscriptions: map[string]gyro.SubscribeOptions{
			"own": {Recoverable: true, Positioned: true},
		}}, nil
	}
	server, ctx := gyrotest.NewServer(t, cfg), within(t)
	c := dial(t, server.URL, client.Options{})
	next := events(t, c.Events(ctx))
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	if e := await[client.SubscribedEvent](t, next); e.Channel != "own" || !e.Recoverable {
		t.Errorf("%+v", e)
	}
	publish := func(data string) {
		t.Helper()
		if _, err := server.Node.Publish(ctx, "own", []byte(data), nil); err != nil {
			t.Fatal(err)
		}
	}
	publish("1")
	if p := await[client.PublicationEvent](t, next); string(p.Data) != "1" || p.Channel != "own" {
		t.Errorf("%+v", p)
	}
	c.Disconnect()
	publish("2")
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	if e := await[client.SubscribedEvent](t, next); !e.Recovered {
		t.Errorf("%+v", e)
	}
	if p := await[client.PublicationEvent](t, next); string(p.Data) != "2" {
		t.Errorf("%+v", p)
	}
}

// TestTokens: a client gets a token when it needs one.
func TestTokens(t *testing.T) {
	t.Parallel()
	var given atomic.Int32
	cfg := setup()
	cfg.Handlers.Connecting = func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
		if e.Token != "2" {
			return gyro.ConnectReply{}, protocol.ErrorTokenExpired
		}
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
	}
	server, ctx := gyrotest.NewServer(t, cfg), within(t)
	c := dial(t, server.URL, client.Options{GetToken: func(context.Context) (string, error) {
		return string('0' + given.Add(1)), nil
	}})
	if err := c.Connect(ctx); err != nil || given.Load() != 2 {
		t.Errorf("%v after %d tokens", err, given.Load())
	}
	c = dial(t, server.URL, client.Options{GetToken: func(context.Context) (string, error) { return "", client.ErrUnauthorized }})
	if err := c.Connect(ctx); !errors.Is(err, client.Unauthorized) {
		t.Errorf("%v", err)
	}
}

// TestEventsOfSubscriptions: one iterator has the events of the client and of its subscriptions, in their order, and
// goes on without closed ones.
func TestEventsOfSubscriptions(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	c := dial(t, server.URL, client.Options{})
	var subs []*client.Subscription
	for _, ch := range []string{"a", "b"} {
		s, err := c.NewSubscription(ch, nil)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, s)
	}
	next := events(t, c.Events(within(t), subs...))
	for _, s := range subs {
		s.Subscribe()
	}
	if err := c.Connect(within(t)); err != nil {
		t.Fatal(err)
	}
	var got []string
	want := []string{"subscribing a", "subscribing b", "connecting", "connected", "subscribed a", "subscribed b"}
	for range want {
		switch e := next().(type) {
		case client.SubscribingEvent:
			got = append(got, "subscribing "+e.Channel)
		case client.ConnectingEvent:
			got = append(got, "connecting")
		case client.ConnectedEvent:
			got = append(got, "connected")
		case client.SubscribedEvent:
			got = append(got, "subscribed "+e.Channel)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	subs[0].Close()
	if e := await[client.UnsubscribedEvent](t, next); e.Channel != "a" {
		t.Errorf("%+v", e)
	}
	if err := subs[1].Publish(within(t), []byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if e := await[client.PublicationEvent](t, next); e.Channel != "b" {
		t.Errorf("%+v", e)
	}
	c.Close()
	await[client.DisconnectedEvent](t, next)
	await[client.UnsubscribedEvent](t, next)
	if e := next(); e != nil {
		t.Errorf("%+v after the end", e)
	}
}

// TestKeys: a client changes a map to which it is not subscribed.
func TestKeys(t *testing.T) {
	t.Parallel()
	setup := setup()
	setup.Handlers.MapChange = func(context.Context, *gyro.Client, gyro.MapChangeEvent) (gyro.MapChangeReply, error) {
		return gyro.MapChangeReply{Options: channel.MapOptions{KeyTTL: time.Hour}}, nil
	}
	server := gyrotest.NewServer(t, setup)
	c := dial(t, server.URL, client.Options{})
	if err := c.Connect(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k", "l"} {
		if err := c.SetKey(within(t), "m", key, []byte(`1`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteKey(within(t), "m", "l"); err != nil {
		t.Fatal(err)
	}
	state, err := server.Node.Maps().State(within(t), "m", channel.StateFilter{Limit: -1})
	if err != nil || len(state.Entries) != 1 || state.Entries[0].Key != "k" || string(state.Entries[0].Data) != "1" {
		t.Errorf("%+v %v", state, err)
	}
}
