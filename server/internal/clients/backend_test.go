package clients_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy"
)

// answering is a backend over HTTP outside of the bubbles of tests. Time in a bubble stands still
// while a call is under way.
type answering struct {
	mu     sync.Mutex
	answer string // not JSON: a failure
}

func (b *answering) set(answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *answering) serve(w http.ResponseWriter, _ *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !strings.HasPrefix(b.answer, "{") {
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = io.WriteString(w, b.answer)
}

// While the backend gives no answer to a refresh, a connection or a subscription lives on for 60 s
// each time. Then an answer counts again.
func TestGrace(t *testing.T) {
	for name, start := range map[string]func(t *testing.T, node *gyro.Node) (expired func() bool){
		"refresh": func(t *testing.T, node *gyro.Node) func() bool {
			c := gyrotest.Open(t, node, nil)
			c.Connect(nil)
			return func() bool { return node.NumClients() == 0 }
		},
		"sub_refresh": func(t *testing.T, node *gyro.Node) func() bool {
			c := gyrotest.Open(t, node, nil)
			c.Connect(nil)
			c.Subscribe("a", nil)
			return func() bool {
				n, err := node.Inspect().NumSubscribers(t.Context(), "a")
				return err == nil && n == 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := new(answering)
			s := httptest.NewServer(http.HandlerFunc(b.serve))
			defer s.Close()
			for _, answered := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) { testGrace(t, b, s.URL, name == "refresh", answered, start) })
			}
		})
	}
}

// grace is how long something lives on after each question without an answer, bound how long it does in all.
const grace, bound = 60 * time.Second, 10 * time.Minute

// testGrace tests a connection or a subscription; answered says whether the backend answers at last.
func testGrace(t *testing.T, b *answering, endpoint string, connection, answered bool, start func(*testing.T, *gyro.Node) func() bool) {
	cfg := config.DefaultConfig()
	at := func(p *config.Proxy) { p.Endpoint, p.Timeout, p.Breaker.Failures = endpoint, time.Hour, 0 }
	cfg.Client.Proxy.Refresh.Enabled = true
	at(&cfg.Client.Proxy.Refresh.Proxy)
	cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
	at(&cfg.Channel.Proxy.SubRefresh)
	resolver, err := channels.NewResolver(cfg.Channel, cfg.Client.UserPersonalChannel)
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := proxy.NewSet(cfg, nil, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer proxies.Close()
	decides := &clients.Backend{Proxies: proxies, Channels: resolver, Log: slog.New(slog.DiscardHandler), State: clients.NewState(), Grace: bound}
	expires := time.Now().Add(100 * time.Second)
	var mu sync.Mutex
	var asked []time.Duration // after the expiration
	ask := func() {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, time.Since(expires))
	}
	node := gyrotest.NewNode(t, gyro.Config{
		PingInterval: -1, PresenceUpdateInterval: time.Second, ExpiredSubCloseDelay: time.Millisecond,
		Handlers: gyro.Handlers{
			Connecting: func(context.Context, gyro.ConnectEvent) (r gyro.ConnectReply, err error) {
				r.Credentials = &gyro.Credentials{UserID: "u"}
				if connection {
					r.Credentials.ExpireAt = expires
				}
				return r, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (r gyro.SubscribeReply, err error) {
				r.Options.ExpireAt = expires
				return r, nil
			},
			Refresh: func(ctx context.Context, c *gyro.Client, _ gyro.RefreshEvent) (gyro.RefreshReply, error) {
				ask()
				return decides.Refresh(ctx, c)
			},
			SubRefresh: func(ctx context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
				ask()
				ch, err := resolver.Named(e.Channel)
				if err != nil {
					return gyro.SubRefreshReply{}, err
				}
				return decides.SubRefresh(ctx, c, ch, e.Channel)
			},
		},
	})
	gone := start(t, node)
	pass := func(d time.Duration, calls int, ends bool) {
		t.Helper()
		time.Sleep(d)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(asked) != calls || gone() != ends {
			t.Errorf("%s after the expiration: asked at %s, want %d times; ended %v", time.Since(expires), asked, calls, gone())
		}
	}
	b.set("<html>")
	pass(390*time.Second, 5, false)
	if !answered {
		pass(bound-390*time.Second, 9, false)
		pass(130*time.Second, 11, true)
		return
	}
	b.set(fmt.Sprintf(`{"result":{"expire_at":%d}}`, expires.Add(1000*time.Second).Unix()))
	pass(600*time.Second, 6, false)
	b.set(`{"result":{"expired":true}}`)
	pass(120*time.Second, 7, true)
	// Each call may be late, as expirations are whole seconds and subscriptions are looked at once a
	// second; what follows is late by as much.
	const late = 2 * time.Second
	want := []time.Duration{0, grace, 2 * grace, 3 * grace, 4 * grace, 5 * grace, 1000 * time.Second}
	for i := range min(len(want), len(asked)) {
		if lag := asked[i] - want[i]; lag < 0 || lag > time.Duration(i+1)*late {
			t.Errorf("call %d at %s, want %s", i, asked[i], want[i])
		}
	}
}
