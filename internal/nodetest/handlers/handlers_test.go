package handlers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// failing returns handlers that return what fail returns.
func failing(fail func() error) gyro.Handlers {
	return gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{
				Credentials:       &gyro.Credentials{UserID: "u", ExpireAt: time.Now().Add(time.Hour)},
				ClientSideRefresh: true,
			}, fail()
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{
				Options:           gyro.SubscribeOptions{ExpireAt: time.Now().Add(time.Hour)},
				ClientSideRefresh: true,
			}, fail()
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, fail()
		},
		Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, fail()
		},
		PresenceStats: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceStatsReply, error) {
			return gyro.PresenceStatsReply{}, fail()
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, fail()
		},
		RPC: func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) {
			return []byte(`{}`), fail()
		},
		Refresh: func(context.Context, *gyro.Client, gyro.RefreshEvent) (gyro.RefreshReply, error) {
			return gyro.RefreshReply{}, fail()
		},
		SubRefresh: func(context.Context, *gyro.Client, gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
			return gyro.SubRefreshReply{}, fail()
		},
		Message: func(context.Context, *gyro.Client, []byte) error { return fail() },
	}
}

var none map[string]int

var commands = []string{
	`"subscribe":{"channel":"new"}`,
	`"publish":{"channel":"old","data":1}`,
	`"presence":{"channel":"old"}`,
	`"presence_stats":{"channel":"old"}`,
	`"history":{"channel":"old"}`,
	`"rpc":{"method":"m"}`,
	`"refresh":{"token":"t"}`,
	`"sub_refresh":{"channel":"old","token":"t"}`,
}

func TestHandlerErrors(t *testing.T) {
	custom := &protocol.Error{Code: 1000, Message: "no luck", Temporary: true}
	kick := protocol.Disconnect{Code: 4100, Reason: "go away"}
	for _, kind := range []struct {
		name       string
		fail       func() error
		want       *protocol.Error
		disconnect bool
	}{
		{name: "none", fail: func() error { return nil }},
		{name: "error", fail: func() error { return custom }, want: custom},
		{name: "wrapped", fail: func() error { return fmt.Errorf("because: %w", custom) }, want: custom},
		{name: "value", fail: func() error { return *custom }, want: custom},
		{name: "wrapped value", fail: func() error { return fmt.Errorf("because: %w", *custom) }, want: custom},
		{name: "joined value", fail: func() error { return errors.Join(io.EOF, *custom) }, want: custom},
		{name: "nil pointer", fail: func() error { return (*gyro.Error)(nil) }, want: protocol.ErrorInternal},
		{name: "wrapped nil pointer", fail: func() error { return fmt.Errorf("because: %w", (*gyro.Error)(nil)) }, want: protocol.ErrorInternal},
		{name: "nil disconnect", fail: func() error { return errors.Join(io.EOF, (*gyro.Disconnect)(nil)) }, want: protocol.ErrorInternal},
		{name: "unknown", fail: func() error { return io.ErrUnexpectedEOF }, want: protocol.ErrorInternal},
		{name: "panic", fail: func() error { panic("oops") }, want: protocol.ErrorInternal},
		{name: "nil map", fail: func() error { none["x"]++; return nil }, want: protocol.ErrorInternal},
		{name: "disconnect", fail: func() error { return fmt.Errorf("because: %w", kick) }, disconnect: true},
		{name: "pointer to disconnect", fail: func() error { return &kick }, disconnect: true},
		{name: "wrapped pointer to disconnect", fail: func() error { return fmt.Errorf("because: %w", &kick) }, disconnect: true},
	} {
		for _, intercepted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/intercepted=%v", kind.name, intercepted), func(t *testing.T) {
				var armed atomic.Bool
				fail := func() error {
					if armed.Load() {
						return kind.fail()
					}
					return nil
				}
				cfg := gyro.Config{Logger: nodetest.Quiet, Handlers: failing(fail)}
				if intercepted {
					cfg.Handlers = failing(func() error { return nil })
					cfg.Interceptors = []gyro.Interceptor{func(next gyro.HandlerFunc) gyro.HandlerFunc {
						return func(ctx context.Context, call gyro.Call) (any, error) {
							reply, err := next(ctx, call)
							return reply, cmp.Or(fail(), err)
						}
					}}
				}
				node := nodetest.Run(t, cfg)
				open := func() *wstest.Client {
					armed.Store(false)
					c := wstest.Pipe(t, node)
					c.Connect("")
					c.Subscribe("old", "")
					armed.Store(true)
					return c
				}
				check := func(c *wstest.Client, command string) {
					t.Helper()
					id := c.Start(command)
					if kind.disconnect {
						nodetest.WantDisconnect(t, c, kick)
						return
					}
					r := c.Await(id)
					if (r.Error == nil) != (kind.want == nil) || r.Error != nil && *r.Error != *kind.want {
						t.Errorf("%s: got %v, want %v", command, r.Error, kind.want)
					}
				}
				for _, command := range commands {
					check(open(), command)
				}
				armed.Store(true)
				c := wstest.Pipe(t, node)
				check(c, `"connect":{}`)
				if kind.want != nil {
					nodetest.WantDisconnect(t, c, protocol.Disconnect{}) // the client closes first
				}
				// A message has no reply; only a disconnect has an effect.
				c = open()
				c.Send(`{"send":{"data":1}}`)
				if kind.disconnect {
					nodetest.WantDisconnect(t, c, kick)
				} else {
					armed.Store(false)
					c.Do(`"rpc":{}`)
				}
			})
		}
	}
}

// The log says what a nil pointer as an error is.
func TestNilErrorIsExplained(t *testing.T) {
	for _, err := range []error{(*gyro.Error)(nil), (*gyro.Disconnect)(nil), fmt.Errorf("because: %w", (*gyro.Error)(nil))} {
		var log bytes.Buffer
		node := nodetest.Run(t, gyro.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Handlers: gyro.Handlers{
			Connecting: nodetest.As,
			RPC:        func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) { return nil, err },
			Survey:     func(context.Context, gyro.SurveyEvent) (gyro.SurveyReply, error) { return gyro.SurveyReply{}, err },
		}})
		nodetest.Connect(t, node, "u").Outcome(`"rpc":{"method":"m"}`)
		if replies, err := node.Cluster().Survey(t.Context(), "op", nil, ""); err != nil || replies[node.UID()].Code != gyro.SurveyInternal {
			t.Errorf("%+v, %v", replies, err)
		}
		nodetest.Must(t, node.Shutdown(t.Context()))
		const why = `error="a nil *gyro.Error or *gyro.Disconnect was returned as an error: return nil for none"`
		if n := strings.Count(log.String(), why); n != 2 || node.Inspect().Panics() != 0 {
			t.Errorf("%d panics, and %d times %s in\n%s", node.Inspect().Panics(), n, why, log.String())
		}
	}
}

func TestCommandsWithoutHandlerAreNotAvailable(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: nodetest.As}})
	c := nodetest.Connect(t, node, "u")
	for _, command := range commands[:len(commands)-1] {
		if r := c.Call(command); r.Error == nil || *r.Error != *protocol.ErrorNotAvailable {
			t.Errorf("%s: got %v", command, r.Error)
		}
	}
	c.Send(`{"send":{"data":1}}`)
	nodetest.WantDisconnect(t, c, protocol.DisconnectNotAvailable)
}

func TestPanicsInNotificationsAreContained(t *testing.T) {
	ended := make(chan struct{})
	node := nodetest.Run(t, gyro.Config{Logger: nodetest.Quiet, Handlers: gyro.Handlers{
		Connecting:   nodetest.As,
		Subscribe:    nodetest.Allow(gyro.SubscribeOptions{}),
		Connected:    func(context.Context, *gyro.Client) { panic("connected") },
		Unsubscribed: func(context.Context, *gyro.Client, gyro.UnsubscribeEvent) { panic("unsubscribed") },
		Disconnected: func(context.Context, *gyro.Client, gyro.DisconnectEvent) { defer close(ended); panic("disconnected") },
	}})
	c := nodetest.Connect(t, node, "u")
	c.Subscribe("ch", "")
	c.Do(`"unsubscribe":{"channel":"ch"}`)
	c.Vanish()
	wait.Receive(t, "Disconnected", ended)
}

func TestConnectEventAndReply(t *testing.T) {
	var got gyro.ConnectEvent
	node := nodetest.Run(t, gyro.Config{Version: "v9", Handlers: gyro.Handlers{
		Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			got = e
			return gyro.ConnectReply{
				Credentials: &gyro.Credentials{UserID: "u", Info: []byte(`{"n":1}`)},
				Data:        []byte(`{"hello":true}`),
			}, nil
		},
	}})
	c := wstest.Pipe(t, node)
	res := c.Connect(`"token":"t","data":{"a":1},"name":"js","version":"1.2","headers":{"x":"y"}`)
	if res.Version != "v9" || string(res.Data) != `{"hello":true}` || res.Client != got.ClientID || res.Ping != 25 || !res.Pong {
		t.Errorf("connect result %+v", res)
	}
	if got.Token != "t" || string(got.Data) != `{"a":1}` || got.Name != "js" || got.Version != "1.2" || got.Headers["x"] != "y" ||
		got.Transport.Name != "pipe" || got.Transport.RemoteAddr == "" || got.Transport.Encoding != protocol.JSON {
		t.Errorf("connect event %+v", got)
	}
}

func TestCredentialsOfTheRequest(t *testing.T) {
	users := make(chan string, 1)
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
		Connected: func(_ context.Context, c *gyro.Client) { users <- c.UserID() },
	}})
	ctx := gyro.SetCredentials(context.Background(), &gyro.Credentials{UserID: "42"})
	c, err := wstest.Open(ctx, t, node, protocol.Protobuf)
	if err != nil {
		t.Fatal(err)
	}
	c.Connect("")
	if user := wait.Receive(t, "Connected", users); user != "42" {
		t.Errorf("user is %q", user)
	}
	anonymous := wstest.Pipe(t, node)
	anonymous.Start(`"connect":{}`)
	nodetest.WantDisconnect(t, anonymous, protocol.DisconnectBadRequest)
}

func TestExpiredCredentials(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{})
	ctx := gyro.SetCredentials(context.Background(), &gyro.Credentials{ExpireAt: time.Unix(1, 0)})
	c, err := wstest.Open(ctx, t, node, protocol.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Call(`"connect":{}`); r.Error == nil || r.Error.Code != protocol.ErrorExpired.Code {
		t.Errorf("got %+v", r)
	}
}

type key struct{}

func TestContextOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			connecting context.Context
			gone, done = make(chan struct{}), make(chan struct{})
		)
		node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
			Connecting: func(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
				connecting = ctx
				return gyro.ConnectReply{
					Credentials: &gyro.Credentials{},
					Context:     context.WithValue(ctx, key{}, fmt.Sprint(ctx.Value(key{}), "+")),
				}, nil
			},
			RPC: func(ctx context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
				defer close(done)
				if v := ctx.Value(key{}); v != "middleware+" || c.Context().Value(key{}) != v {
					t.Errorf("value is %v", v)
				}
				if ctx.Err() != nil || context.Cause(ctx) != nil {
					t.Errorf("context has ended: %v, %v", ctx.Err(), context.Cause(ctx))
				}
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				<-c.Context().Done()
				if ctx.Err() != nil {
					t.Error("the context ended with the connection")
				}
				close(gone)
				<-derived.Done()
				return nil, ctx.Err()
			},
		}})
		c, err := wstest.Open(context.WithValue(context.Background(), key{}, "middleware"), t, node, protocol.JSON)
		if err != nil {
			t.Fatal(err)
		}
		c.Connect("")
		if connecting.Err() == nil {
			t.Error("the context of Connecting outlives it")
		}
		c.Start(`"rpc":{}`)
		synctest.Wait()
		c.Vanish()
		<-gone
		began := time.Now()
		nodetest.Must(t, node.Shutdown(context.Background()))
		<-done
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("the node waited %v for the handler", took)
		}
	})
}

func TestConnectingEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 1)
		node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
			Connecting: func(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
				<-ctx.Done()
				errs <- ctx.Err()
				return gyro.ConnectReply{}, ctx.Err()
			},
		}})
		c := wstest.Pipe(t, node)
		c.Start(`"connect":{}`)
		nodetest.WantDisconnect(t, c, protocol.DisconnectStale)
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRefreshHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		soon := func() time.Time { return time.Now().Add(time.Minute) }
		var refreshed, subRefreshed atomic.Int32
		node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
			Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token, ExpireAt: soon()}}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{ExpireAt: soon()}}, nil
			},
			Refresh: func(_ context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
				if e.ClientSide {
					t.Error("refresh is the client's")
				}
				if refreshed.Add(1) > 4 {
					return gyro.RefreshReply{Expired: true}, nil
				}
				return gyro.RefreshReply{ExpireAt: soon()}, nil
			},
			SubRefresh: func(_ context.Context, _ *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
				if subRefreshed.Add(1) == 1 {
					return gyro.SubRefreshReply{ExpireAt: soon()}, nil
				}
				return gyro.SubRefreshReply{Expired: true}, nil
			},
		}})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("ch", "")
		time.Sleep(5*time.Minute - time.Second)
		if n := refreshed.Load(); n != 4 {
			t.Errorf("refreshed %d times", n)
		}
		time.Sleep(2 * time.Second)
		nodetest.WantDisconnect(t, c, protocol.DisconnectExpired)
		if p := c.Push(); p.Unsubscribe == nil || *p.Unsubscribe != protocol.UnsubscribeExpired {
			t.Errorf("got %+v", p)
		}
	})
}

// Meta is there for all later handlers, beside the values of the context, and a refresh
// replaces it; without meta nothing changes.
func TestMeta(t *testing.T) {
	refreshed := map[string]gyro.RefreshReply{
		"none":    {},
		"new":     {Meta: []byte(`{"v":2}`)},
		"expired": {Expired: true, Meta: []byte(`{"v":3}`)},
	}
	metas := make(chan string, 1)
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			reply := gyro.ConnectReply{Credentials: &gyro.Credentials{Meta: e.Data}, ClientSideRefresh: true}
			if e.Token != "" {
				reply.Context = context.WithValue(ctx, key{}, e.Token)
			}
			return reply, nil
		},
		RPC: func(ctx context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
			return fmt.Appendf(nil, "%q", fmt.Sprintln(string(c.Meta()), ctx.Value(key{}), c.Context().Value(key{}))), nil
		},
		Refresh: func(_ context.Context, _ *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
			return refreshed[e.Token], nil
		},
		Disconnected: func(_ context.Context, c *gyro.Client, _ gyro.DisconnectEvent) { metas <- string(c.Meta()) },
	}})
	for _, tt := range []struct{ connect, before, after string }{
		{`"data":{"v":1},"token":"t"`, `{"v":1} t t`, `{"v":2} t t`},
		{`"data":{"v":1}`, `{"v":1} <nil> <nil>`, `{"v":2} <nil> <nil>`},
		{`"token":"t"`, ` t t`, `{"v":2} t t`},
		{``, ` <nil> <nil>`, `{"v":2} <nil> <nil>`},
	} {
		c := wstest.Pipe(t, node)
		if res, err := json.Marshal(c.Connect(tt.connect)); err != nil || strings.Contains(string(res), `"v"`) {
			t.Errorf("connect result %s, %v", res, err)
		}
		for _, step := range []struct{ token, want string }{{"none", tt.before}, {"new", tt.after}} {
			c.Do(`"refresh":{"token":"` + step.token + `"}`)
			var got string
			if err := json.Unmarshal(c.Do(`"rpc":{}`).RPC.Data, &got); err != nil || got != step.want+"\n" {
				t.Errorf("%s, after refresh %q: %q, want %q, %v", tt.connect, step.token, got, step.want, err)
			}
		}
		c.Start(`"refresh":{"token":"expired"}`)
		nodetest.WantDisconnect(t, c, protocol.DisconnectExpired)
		if meta := wait.Receive(t, "Disconnected", metas); meta != `{"v":2}` {
			t.Errorf("%s: meta %s at the end", tt.connect, meta)
		}
	}
}
