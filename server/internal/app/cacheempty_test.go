package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// rates adds a namespace whose channels are filled by the backend.
func rates(cfg *config.Config) {
	addNamespace(cfg, "rate", func(o *config.ChannelOptions) {
		open(o)
		o.HistorySize, o.HistoryTTL = 1, time.Minute
		o.ForceRecovery, o.ForceRecoveryMode, o.AutoCacheRecover, o.CacheEmptyProxyEnabled = true, "cache", true, true
	})
}

// askedAbout returns the requests about an event so far.
func (b *testBackend) askedAbout(event string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked[event])
}

// publishing makes the backend publish into channels that it is asked about, by the server API.
func (b *testBackend) publishing(s *testServer, data string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers["NotifyCacheEmpty"] = func() string { // with the lock
		asked := b.asked["NotifyCacheEmpty"]
		command := strings.TrimSuffix(asked[len(asked)-1], "}") + `,"data":` + data + `}`
		if status, answer := s.post("/api/publish", command); status != http.StatusOK || strings.Contains(answer, "error") {
			b.t.Errorf("publish: %d %s", status, answer)
		}
		return `{"result":{"populated":true}}`
	}
}

// A thousand clients subscribe again at once to a channel that is empty. The backend is asked once, and
// all of them get what it publishes.
func TestCacheEmptyProxy(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		const clients = 1000
		s := startServerAt(t, "info", proxied(b, func(cfg *config.Config) { everything(cfg); rates(cfg) }))
		b.publishing(s, `{"v":1}`)
		var connected, subscribed sync.WaitGroup
		start := make(chan struct{})
		for i := range clients {
			connected.Add(1)
			subscribed.Go(func() {
				c := s.connect("u")
				connected.Done()
				<-start
				since := ""
				if i%2 == 0 {
					since = `"recover":true,"epoch":"lost","offset":7`
				}
				r := c.Subscribe("rate:EURUSD", since)
				if !r.Recovered || len(r.Publications) != 1 || string(r.Publications[0].Data) != `{"v":1}` {
					t.Errorf("%+v", r)
				}
			})
		}
		connected.Wait()
		close(start)
		subscribed.Wait()
		if got := b.askedAbout("NotifyCacheEmpty"); !slices.Equal(got, []string{`{"channel":"rate:EURUSD"}`}) {
			t.Errorf("asked %q", got)
		}
		_, protocol, _ := strings.Cut(t.Name(), "/")
		labels := []string{"name=default", "protocol=" + protocol, "type=cache_empty"}
		s.wantMetric(1, "gyro_proxy_duration_seconds", labels...)
		s.wantMetric(0, "gyro_proxy_errors", labels...)
		s.wantMetric(0, "gyro_proxy_inflight_requests", labels...)
	})
}

// What clients see of the backend's answers, whether they subscribe or read history.
func TestCacheEmptyProxyAnswers(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startServer(t, proxied(b, func(cfg *config.Config) {
			everything(cfg)
			rates(cfg)
			cfg.Channel.Proxy.CacheEmpty.Breaker.Failures = 0
		}))
		s.expected = "backend"
		clients := []string{"a", "b", "c"}
		for i, tt := range []struct{ answer, want string }{
			{`{}`, "ok"},
			{`{"result":{}}`, "ok"},
			{`{"result":{"populated":false}}`, "ok"},
			{`{"result":{"populated":true}}`, "ok"}, // although it has published nothing
			{`<html>`, "error 100"},
		} {
			b.answer("NotifyCacheEmpty", tt.answer)
			ch := fmt.Sprintf("rate:%d", i)
			for _, user := range clients {
				c := s.connect(user)
				got, reply := c.Outcome(fmt.Sprintf(`"subscribe":{"channel":%q}`, ch))
				if got != tt.want {
					t.Errorf("%s: %s, want %s", tt.answer, got, tt.want)
				}
				if got == "ok" && (reply.Subscribe.Recovered || reply.Subscribe.WasRecovering) {
					t.Errorf("%s: %+v", tt.answer, reply.Subscribe)
				}
				if got, _ := c.Outcome(fmt.Sprintf(`"history":{"channel":%q,"limit":1}`, ch)); got != tt.want {
					t.Errorf("%s: history: %s, want %s", tt.answer, got, tt.want)
				}
			}
			if b.lastOf("NotifyCacheEmpty", ch) == "" {
				t.Errorf("%s: not asked", tt.answer)
			}
		}
		_, protocol, _ := strings.Cut(t.Name(), "/")
		if n := value(s.metrics(), "gyro_proxy_errors", "name=default", "protocol="+protocol, "type=cache_empty"); n < 1 {
			t.Errorf("%g errors are counted", n)
		}
		s.awaitLog("subscribe refused", "history refused", `"key":"channel.proxy.cache_empty"`)
		// The channel of a client that reads history is filled as well.
		b.publishing(s, `2`)
		h := s.connect("a").Do(`"history":{"channel":"rate:history","limit":1}`).History
		if len(h.Publications) != 1 || string(h.Publications[0].Data) != `2` {
			t.Errorf("%+v", h)
		}
		// A backend that reads history is not asked, and neither is one that asks for a channel of
		// another namespace.
		before := len(b.askedAbout("NotifyCacheEmpty"))
		s.api("history", `{"channel":"rate:api","limit":1}`)
		s.connect("a").Outcome(`"history":{"channel":"none","limit":1}`)
		if n := len(b.askedAbout("NotifyCacheEmpty")); n != before {
			t.Errorf("asked %d times", n-before)
		}
	})
}

// Subscriptions that the connect proxy makes are filled, too; a connect that needs one that is not
// filled fails.
func TestCacheEmptyProxyOnConnect(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, rates)
		b.answer("Connect", `{"result":{"user":"u","channels":["rate:a","rate:b"]}}`)
		b.publishing(s, `1`)
		for ch, sub := range s.dial(nil).Connect("").Subs {
			if len(sub.Publications) != 1 || string(sub.Publications[0].Data) != `1` {
				t.Errorf("%s: %+v", ch, sub)
			}
		}
		b.answer("Connect", `{"result":{"user":"u","channels":["rate:a","rate:c"]}}`)
		b.answer("NotifyCacheEmpty", `<html>`)
		if got, _ := s.dial(nil).Outcome(`"connect":{}`); got != "error 100" {
			t.Error(got)
		}
	})
}

// A backend that does not answer holds up nobody but those who wait for it, until the timeout.
func TestCacheEmptyProxySlow(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	asked, release := make(chan struct{}), make(chan struct{})
	b.answers["NotifyCacheEmpty"] = func() string { close(asked); <-release; return `{}` }
	s := startProxied(t, b, func(cfg *config.Config) {
		rates(cfg)
		cfg.Channel.Proxy.CacheEmpty.Timeout = time.Second
		addNamespace(cfg, "other", open)
	})
	t.Cleanup(func() { close(release) })
	waiting := s.connect("u")
	id := waiting.Start(`"subscribe":{"channel":"rate:a"}`)
	<-asked
	other := s.connect("v")
	other.Subscribe("other:a", "")
	other.Do(`"publish":{"channel":"other:a","data":1}`)
	other.Pub()
	if r := waiting.Await(id); r.Error == nil || r.Error.Code != 100 {
		t.Errorf("%+v", r)
	}
}

// A reload switches the hook of a namespace on, and off.
func TestCacheEmptyProxyReload(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	b.answer("NotifyCacheEmpty", `{}`)
	edit := func(on bool) func(*config.Config) {
		return proxied(b, func(cfg *config.Config) {
			rates(cfg)
			cfg.Channel.Namespaces[0].CacheEmptyProxyEnabled = on
		})
	}
	s := startServer(t, edit(false))
	for i, on := range []bool{false, true, false} {
		s.reload(edit(on))
		ch := fmt.Sprintf("rate:%d", i)
		s.connect("u").Subscribe(ch, "")
		if asked := b.lastOf("NotifyCacheEmpty", ch) != ""; asked != on {
			t.Errorf("asked: %v, switched on: %v", asked, on)
		}
	}
}
