package mobile_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client/mobile"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/porttest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type listener struct{ heard chan string }

func (l listener) say(format string, args ...any) { l.heard <- fmt.Sprintf(format, args...) }

func (l listener) OnConnecting(code int, reason string) { l.say("connecting %d %s", code, reason) }
func (l listener) OnConnected(_, transport string, data []byte) {
	l.say("connected %s %s", transport, data)
}
func (l listener) OnDisconnected(code int, reason string) { l.say("disconnected %d %s", code, reason) }
func (l listener) OnError(channel string, code int, text string) {
	l.say("error %s %d %s", channel, code, text)
}
func (l listener) OnMessage(data []byte) { l.say("message %s", data) }
func (l listener) OnServerSubscribed(channel string, ok bool) {
	l.say("server subscribed %s %v", channel, ok)
}
func (l listener) OnServerUnsubscribed(channel string) { l.say("server unsubscribed %s", channel) }
func (l listener) OnServerPublication(p *mobile.Publication) {
	l.say("server publication %s %s", p.Channel, p.Data)
}
func (l listener) OnOutcome(key string, result []byte, code int, message string) {
	l.say("outcome %s %s %d %s", key, result, code, message)
}
func (l listener) WithKey(key string, data []byte) []byte { return append(data, key...) }

type follower struct{ listener }

func (f follower) OnSubscribing(code int, reason string) { f.say("subscribing %d %s", code, reason) }
func (f follower) OnSubscribed(was, ok bool, data []byte) {
	f.say("subscribed %v %v %s", was, ok, data)
}
func (f follower) OnUnsubscribed(code int, reason string) { f.say("unsubscribed %d %s", code, reason) }
func (f follower) OnError(code int, message string)       { f.say("error %d %s", code, message) }
func (f follower) OnPublication(p *mobile.Publication) {
	f.say("publication %s %d %s %s", p.Data, p.Offset, p.UserID, p.Tag("none"))
}
func (f follower) OnGap(from, to int64)                 { f.say("gap %d %d", from, to) }
func (f follower) OnState(entries *mobile.Publications) { f.say("state of %d", entries.Len()) }
func (f follower) OnJoin(user, _ string)                { f.say("join %s", user) }
func (f follower) OnLeave(user, _ string)               { f.say("leave %s", user) }

type source struct{ token string }

func (s source) Token(channel string) (string, error) { return s.token + channel, nil }

func (l listener) expect(t *testing.T, want string) {
	t.Helper()
	if got := wait.Receive(t, want, l.heard); !strings.HasPrefix(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

var conversation = gyro.Config{
	Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Hour}),
	Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}, Data: []byte(`{}`)}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Token != "annnews" {
				return gyro.SubscribeReply{}, protocol.ErrorPermissionDenied
			}
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Positioned: true, Presence: true}}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
		Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			if e.Method == "no" {
				return nil, protocol.ErrorPermissionDenied
			}
			return e.Data, nil
		},
	},
}

// TestClient: a conversation by the flat API.
func TestClient(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, conversation)
	l, outcomes, f := listener{make(chan string, 100)}, listener{make(chan string, 100)}, follower{listener{make(chan string, 100)}}
	o := mobile.NewOptions()
	o.TimeoutMillis = wait.Limit.Milliseconds() // the default is too short for a busy machine
	o.TokenSource, o.Protobuf = source{"ann"}, true
	c, err := mobile.NewClient(server.URL, o, l)
	if err != nil {
		t.Fatal(err)
	}
	box, err := mobile.NewOutbox(c, filepath.Join(t.TempDir(), "outbox"), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if key, err := box.RPC([]string{"echo", "no"}[n], []byte(`call `), fmt.Sprint("key", n)); err != nil || key != fmt.Sprint("key", n) {
			t.Fatal(key, err)
		}
	}
	c.Connect()
	l.expect(t, "connecting 0 connect called")
	l.expect(t, "connected websocket {}")
	outcomes.expect(t, "outcome key0 call key0 0 ")
	outcomes.expect(t, "outcome key1  103 permission denied")
	s, err := c.NewSubscription("news", &mobile.SubscribeOptions{TokenSource: source{"ann"}}, f)
	if err != nil {
		t.Fatal(err)
	}
	s.Subscribe()
	f.expect(t, "subscribing 0 subscribe called")
	f.expect(t, "subscribed false false")
	if err := s.Publish([]byte(`"text"`)); err != nil {
		t.Fatal(err)
	}
	f.expect(t, `publication "text" 1 ann`)
	if h, err := s.History(5); err != nil || h.Len() != 1 || string(h.At(0).Data) != `"text"` || h.At(1) != nil || h.TopOffset() != 1 || h.TopEpoch() == "" {
		t.Errorf("%+v %v", h, err)
	}
	if m, err := s.Presence(); err != nil || m.Len() != 1 || m.At(0).UserID != "ann" || m.At(1) != nil {
		t.Errorf("%+v %v", m, err)
	}
	if err := s.Set("key", nil); err == nil {
		t.Error("a stream with keys")
	}
	_, err = c.RPC("no", nil)
	if mobile.ErrorCode(err) != 103 || mobile.ErrorTemporary(err) || mobile.ErrorCode(nil) != 0 {
		t.Errorf("%v", err)
	}
	if c.State() != mobile.Connected || s.State() != mobile.Subscribed {
		t.Error(c.State(), s.State())
	}
	if err := box.Close(); err != nil || box.Len() != 0 {
		t.Error(box.Len(), err)
	}
	c.Disconnect()
	l.expect(t, "disconnected 0 disconnect called")
	f.expect(t, "subscribing 1 transport closed")
	c.Connect() // the listeners hear of what follows
	l.expect(t, "connecting 0 connect called")
	l.expect(t, "connected")
	f.expect(t, "subscribed true true")
	c.Close()
	f.expect(t, "unsubscribed 2 client closed")
	l.expect(t, "disconnected 0 disconnect called")
}

// TestReconnect: the program learns when the next attempt is, and has it made at once.
func TestReconnect(t *testing.T) {
	t.Parallel()
	address := porttest.Address(t) // without a listener
	synctest.Test(t, func(t *testing.T) {
		l := listener{make(chan string, 100)}
		c, err := mobile.NewClient("ws://"+address, nil, l)
		if err != nil {
			t.Fatal(err)
		}
		c.Reconnect()
		if c.NextAttemptMillis() != 0 {
			t.Error(c.NextAttemptMillis())
		}
		began := time.Now()
		c.Connect()
		l.expect(t, "connecting 0 connect called")
		for range 5 {
			l.expect(t, "error")
			if next := c.NextAttemptMillis(); next < began.Add(500*time.Millisecond).UnixMilli() {
				t.Errorf("the next attempt is at %d, it is %d", next, began.UnixMilli())
			}
			c.Reconnect()
		}
		if passed := time.Since(began); passed > 0 {
			t.Errorf("the attempts take %v", passed)
		}
		c.Close()
	})
}

type keys struct{ follower }

func (k keys) Signature(channel string, all *mobile.Strings) (string, error) {
	k.say("signature %s %d %s%s", channel, all.Len(), all.At(0), all.At(9))
	return "signed", nil
}

func (k keys) OnPublication(p *mobile.Publication) {
	k.say("value %s %s %d %v", p.Key, p.Data, p.Version, p.Removed)
}

// TestPoll: values of keys that the program tracks.
func TestPoll(t *testing.T) {
	t.Parallel()
	poll := &channel.SharedPoll{
		Track: func(_ context.Context, r *channel.TrackRequest) error {
			if r.Batches[0].Signature != "signed" {
				return protocol.ErrorPermissionDenied
			}
			return nil
		},
		Poll: func(_ context.Context, _ string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
			for _, k := range keys {
				a.Values = append(a.Values, channel.KeyValue{Key: k.Key, Data: []byte(`"value"`), Version: 7})
			}
			return a, nil
		},
		Interval:  time.Hour,
		Versioned: true,
	}
	_, c := connected(t, gyro.SubscribeOptions{Poll: poll})
	f := keys{follower{listener{make(chan string, 100)}}}
	s, err := c.NewPoll("shop", nil, f, f)
	if err != nil {
		t.Fatal(err)
	}
	s.Subscribe()
	f.expect(t, "subscribing")
	f.expect(t, "subscribed")
	names := mobile.NewStrings()
	names.Add("apple")
	if err := s.Track(names, ""); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "signature shop 1 apple")
	f.expect(t, `value apple "value" 7 false`)
	if err := s.Untrack(names); err != nil {
		t.Error(err)
	}
	news, err := c.NewSubscription("news", nil, f)
	if err != nil {
		t.Fatal(err)
	}
	if news.Track(names, "") == nil || news.Untrack(names) == nil {
		t.Error("a stream has keys that are tracked")
	}
}

// TestFilter: publications by their tags.
func TestFilter(t *testing.T) {
	t.Parallel()
	server, c := connected(t, gyro.SubscribeOptions{AllowTagsFilter: true})
	one, names := mobile.FilterTag("city", "eq", "Bern"), mobile.NewStrings()
	names.Add("apple")
	names.Add("en")
	o := mobile.NewSubscribeOptions()
	o.Filter = mobile.FilterAnd(mobile.FilterNot(one), mobile.FilterOr(mobile.FilterTagIn("lang", names), mobile.FilterTagNotIn("city", names)))
	g := follower{listener{make(chan string, 100)}}
	news, err := c.NewSubscription("news", o, g)
	if err != nil {
		t.Fatal(err)
	}
	// follow subscribes, publishes four times, and unsubscribes when those have come that the filter lets through.
	follow := func(want ...int) {
		t.Helper()
		news.Subscribe()
		g.expect(t, "subscribing")
		g.expect(t, "subscribed")
		for n, tags := range []map[string]string{{"city": "Bern"}, {"city": "apple", "lang": "de"}, {"city": "Thun"}, {"lang": "en", "city": "apple"}} {
			if _, err := server.Node.Publish(t.Context(), "news", fmt.Append(nil, n), &gyro.PublishOptions{Tags: tags}); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range want {
			g.expect(t, fmt.Sprint("publication ", n))
		}
		news.Unsubscribe()
		g.expect(t, "unsubscribed")
	}
	follow(2, 3)
	news.SetFilter(one)
	follow(0)
	news.SetFilter(nil)
	follow(0, 1, 2, 3)
}

func connected(t *testing.T, o gyro.SubscribeOptions) (*gyrotest.Server, *mobile.Client) {
	t.Helper()
	server := gyrotest.NewServer(t, gyro.Config{
		Handlers: gyro.Handlers{
			Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: o}, nil
			},
		},
	})
	c, err := mobile.NewClient(server.URL, nil, listener{make(chan string, 100)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.Connect()
	return server, c
}
