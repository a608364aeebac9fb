// Package gosdk tests the server with centrifuge-go, over JSON and Protobuf. The scenarios of the other SDKs (../js,
// ../python) have the same names.
package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var servers *rig.Rig

func TestMain(m *testing.M) {
	flag.Parse()
	// The scenarios wait more than they compute: run many at a time. The flag exists.
	_ = flag.Set("test.parallel", "16")
	var err error
	if servers, err = rig.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprint(os.Stderr, servers.Logs())
	}
	servers.Stop()
	os.Exit(code)
}

type sdk struct {
	*testing.T
	protobuf bool
}

// names makes users and channels unique: scenarios run side by side.
var names atomic.Int64

func unique(prefix string) string { return fmt.Sprintf("%s%d", prefix, names.Add(1)) }

// in returns a Unix time at least d from now, in whole seconds as in tokens.
func in(d time.Duration) int64 { return time.Now().Add(d + time.Second - 1).Unix() }

type conn struct {
	*centrifuge.Client
	s    sdk
	user string

	connected    chan centrifuge.ConnectedEvent
	connecting   chan centrifuge.ConnectingEvent
	disconnected chan centrifuge.DisconnectedEvent
	errors       chan error
	messages     chan []byte
	subscribed   chan centrifuge.ServerSubscribedEvent
	unsubscribed chan string
	publications chan centrifuge.ServerPublicationEvent
	joins        chan centrifuge.ServerJoinEvent
}

// many events may wait for a test, so that the SDK never has to.
const many = 1 << 16

// client has not connected yet. Without a token in cfg the user gets one.
func (s sdk) client(url string, cfg centrifuge.Config) *conn {
	s.Helper()
	c := &conn{
		s: s, user: unique("user"),
		connected:    make(chan centrifuge.ConnectedEvent, many),
		connecting:   make(chan centrifuge.ConnectingEvent, many),
		disconnected: make(chan centrifuge.DisconnectedEvent, many),
		errors:       make(chan error, many),
		messages:     make(chan []byte, many),
		subscribed:   make(chan centrifuge.ServerSubscribedEvent, many),
		unsubscribed: make(chan string, many),
		publications: make(chan centrifuge.ServerPublicationEvent, many),
		joins:        make(chan centrifuge.ServerJoinEvent, many),
	}
	if cfg.Token == "" && cfg.GetToken == nil {
		cfg.Token = rig.Token(map[string]any{"sub": c.user})
	}
	cfg.MinReconnectDelay, cfg.MaxReconnectDelay = 5*time.Millisecond, 50*time.Millisecond
	cfg.HandshakeTimeout, cfg.ReadTimeout, cfg.WriteTimeout = wait.Limit, wait.Limit, wait.Limit
	if s.protobuf {
		c.Client = centrifuge.NewProtobufClient(url, cfg)
	} else {
		c.Client = centrifuge.NewJsonClient(url, cfg)
	}
	c.OnConnected(func(e centrifuge.ConnectedEvent) { c.connected <- e })
	c.OnConnecting(func(e centrifuge.ConnectingEvent) { c.connecting <- e })
	c.OnDisconnected(func(e centrifuge.DisconnectedEvent) { c.disconnected <- e })
	c.OnError(func(e centrifuge.ErrorEvent) { c.errors <- e.Error })
	c.OnMessage(func(e centrifuge.MessageEvent) { c.messages <- e.Data })
	c.OnSubscribed(func(e centrifuge.ServerSubscribedEvent) { c.subscribed <- e })
	c.OnUnsubscribed(func(e centrifuge.ServerUnsubscribedEvent) { c.unsubscribed <- e.Channel })
	c.OnPublication(func(e centrifuge.ServerPublicationEvent) { c.publications <- e })
	c.OnJoin(func(e centrifuge.ServerJoinEvent) { c.joins <- e })
	s.Cleanup(c.Close)
	return c
}

func (s sdk) connect(cfg centrifuge.Config) *conn {
	s.Helper()
	c := s.client(servers.Main.WS(), cfg)
	c.open()
	return c
}

func (c *conn) open() centrifuge.ConnectedEvent {
	c.s.Helper()
	c.dial()
	return wait.Receive(c.s, "connected", c.connected)
}

func (c *conn) dial() {
	c.s.Helper()
	c.s.must(c.Connect())
	wait.Receive(c.s, "connecting", c.connecting)
}

type sub struct {
	*centrifuge.Subscription
	s sdk

	subscribing  chan centrifuge.SubscribingEvent
	subscribed   chan centrifuge.SubscribedEvent
	unsubscribed chan centrifuge.UnsubscribedEvent
	publications chan centrifuge.PublicationEvent
	joins        chan centrifuge.JoinEvent
	leaves       chan centrifuge.LeaveEvent
	errors       chan error
}

func (c *conn) subscription(channel string, cfg centrifuge.SubscriptionConfig) *sub {
	c.s.Helper()
	cfg.MinResubscribeDelay, cfg.MaxResubscribeDelay = 5*time.Millisecond, 50*time.Millisecond
	inner, err := c.NewSubscription(channel, cfg)
	c.s.must(err)
	s := &sub{
		Subscription: inner, s: c.s,
		subscribing:  make(chan centrifuge.SubscribingEvent, many),
		subscribed:   make(chan centrifuge.SubscribedEvent, many),
		unsubscribed: make(chan centrifuge.UnsubscribedEvent, many),
		publications: make(chan centrifuge.PublicationEvent, many),
		joins:        make(chan centrifuge.JoinEvent, many),
		leaves:       make(chan centrifuge.LeaveEvent, many),
		errors:       make(chan error, many),
	}
	s.OnSubscribing(func(e centrifuge.SubscribingEvent) { s.subscribing <- e })
	s.OnSubscribed(func(e centrifuge.SubscribedEvent) { s.subscribed <- e })
	s.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { s.unsubscribed <- e })
	s.OnPublication(func(e centrifuge.PublicationEvent) { s.publications <- e })
	s.OnJoin(func(e centrifuge.JoinEvent) { s.joins <- e })
	s.OnLeave(func(e centrifuge.LeaveEvent) { s.leaves <- e })
	s.OnError(func(e centrifuge.SubscriptionErrorEvent) { s.errors <- e.Error })
	c.s.must(s.Subscribe())
	wait.Receive(c.s, "subscribing", s.subscribing)
	return s
}

func (c *conn) subscribe(channel string, cfg centrifuge.SubscriptionConfig) *sub {
	c.s.Helper()
	s := c.subscription(channel, cfg)
	wait.Receive(c.s, "subscribed to "+channel, s.subscribed)
	return s
}

// none asserts that no event has come. Call it after an event that the server sends later on the same connection,
// otherwise it proves nothing.
func none[T any](t testing.TB, what string, events <-chan T) {
	t.Helper()
	select {
	case e := <-events:
		t.Fatalf("unexpected event %s: %+v", what, e)
	default:
	}
}

func (s sdk) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s sdk) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
	s.Cleanup(cancel)
	return ctx
}

type object = map[string]any

func (s sdk) api(method string, params object) {
	s.Helper()
	s.must(servers.Main.API(s.context(), method, params, nil))
}

func (s sdk) publish(channel string, n int) {
	s.Helper()
	s.api("publish", object{"channel": channel, "data": object{"n": n}})
}

func (s sdk) number(data []byte) int {
	s.Helper()
	var v struct{ N int }
	s.must(json.Unmarshal(data, &v))
	return v.N
}

func (s sdk) hasCode(err error, code uint32) {
	s.Helper()
	var e *centrifuge.Error
	if !errors.As(err, &e) || e.Code != code {
		s.Fatalf("error %v, want code %d", err, code)
	}
}

func (s sdk) equal(what string, got, want any) {
	s.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		s.Fatalf("%s: got %s, want %s", what, g, w)
	}
}

func (s sdk) proxy(to *rig.Server) *rig.Proxy {
	s.Helper()
	p, err := servers.Proxy(to)
	s.must(err)
	s.Cleanup(p.Close)
	return p
}

// scenarios run in both encodings.
var scenarios = map[string]func(sdk){
	"connect with a token":                      connect,
	"refused tokens":                            refusedTokens,
	"expired token is replaced":                 expiredToken,
	"publish and receive":                       publish,
	"presence":                                  presence,
	"join and leave":                            joinLeave,
	"history":                                   history,
	"many subscriptions in one go":              manySubscriptions,
	"recovery over cut connections":             recoverCuts,
	"recovery after a server's disconnect":      recoverDisconnect,
	"unrecoverable position":                    unrecoverable,
	"cache recovery":                            cacheRecovery,
	"connection token refresh":                  refresh,
	"subscription token refresh":                subRefresh,
	"expired subscription gets a new token":     subExpired,
	"server-side subscriptions of a token":      tokenSubscriptions,
	"server-side subscriptions of the API":      apiSubscriptions,
	"delta":                                     deltas,
	"tags filter":                               tagsFilter,
	"private channel":                           privateChannel,
	"user-limited channel":                      userLimited,
	"channel errors":                            channelErrors,
	"terminal disconnect":                       terminalDisconnect,
	"pings keep a connection":                   pings,
	"silent network is noticed by both sides":   silence,
	"RPC and messages against a library server": rpc,
}

func TestScenarios(t *testing.T) {
	for name, run := range scenarios {
		for _, encoding := range []string{"json", "protobuf"} {
			t.Run(strings.ReplaceAll(name, " ", "-")+"/"+encoding, func(t *testing.T) {
				t.Parallel()
				run(sdk{T: t, protobuf: encoding == "protobuf"})
			})
		}
	}
}
