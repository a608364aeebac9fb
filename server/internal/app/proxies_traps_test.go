package app

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// delta_publish of a namespace does not count where the backend decides. The format is checked before the backend is asked, and so is
// that of its answer.
func TestPublishProxyIgnoresNamespace(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			addNamespace(cfg, "doc", func(o *config.ChannelOptions) {
				open(o)
				o.PublishProxyEnabled, o.DeltaPublish, o.AllowedDeltaTypes = true, true, []string{"fossil"}
				o.ForceRecovery, o.PublicationDataFormat = true, "json_object"
			})
		})
		c := s.connect("u")
		c.Subscribe("doc:a", `"delta":"fossil"`)
		text := strings.Repeat("the same text ", 20)
		publish := func(answer string) (delta bool) {
			b.answer("Publish", answer)
			c.Do(fmt.Sprintf(`"publish":{"channel":"doc:a","data":{"text":%q}}`, text))
			return c.Pub().Delta
		}
		publish(`{}`)
		for answer, want := range map[string]bool{
			`{}`: false, `{"result":{}}`: false, `{"result":{"delta":true}}`: true, `{"result":{"tags":{"a":"b"}}}`: false,
		} {
			if got := publish(answer); got != want {
				t.Errorf("%s: delta %v, want %v", answer, got, want)
			}
		}
		// The same namespace without the proxy sends differences: the HTTP API.
		for range 2 {
			s.api("publish", fmt.Sprintf(`{"channel":"doc:a","data":{"text":%q}}`, text))
		}
		if c.Pub(); !c.Pub().Delta {
			t.Error("delta_publish does not count for the HTTP API")
		}

		b.answer("Publish", `{"result":{"data":[1]}}`)
		if got, _ := c.Outcome(`"publish":{"channel":"doc:a","data":{}}`); got != "error 107" {
			t.Errorf("an answer in another format: %s", got)
		}
		before := len(b.askedAbout("Publish"))
		if got, _ := c.Outcome(`"publish":{"channel":"doc:a","data":[1]}`); got != "error 107" || len(b.askedAbout("Publish")) != before {
			t.Errorf("%s, asked %d times", got, len(b.askedAbout("Publish"))-before)
		}
	})
}

// Requests about anonymous clients have an empty user; nothing else that is empty is in them.
func TestProxyRequestsAlwaysHaveUser(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.Client.Proxy.Refresh.Enabled = true
			cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
			cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 100*time.Millisecond, time.Millisecond
		})
		b.answerExpiring("Connect", `{"result":{"expire_at":%d}}`)
		b.answerExpiring("Subscribe", `{"result":{"expire_at":%d}}`)
		b.answer("Refresh", `{"result":{"expire_at":9999999999}}`)
		b.answer("SubRefresh", `{"result":{}}`)
		c, _ := s.outlive(nil, "error 110", func() string { return "" })
		s.subscribeExpiring(c, "a")
		c.Do(`"publish":{"channel":"a","data":1}`)
		c.Do(`"rpc":{"method":"m"}`)
		b.awaitAsked("Refresh", 1)
		b.awaitAsked("SubRefresh", 1)
		head := `{"transport":"websocket","protocol":"json","encoding":"json"`
		for event, want := range map[string]string{
			"Connect":    head + `}`,
			"Subscribe":  head + `,"user":"","channel":"a"}`,
			"Publish":    head + `,"user":"","channel":"a","data":1}`,
			"RPC":        head + `,"user":"","method":"m"}`,
			"Refresh":    head + `,"user":""}`,
			"SubRefresh": head + `,"user":"","channel":"a"}`,
		} {
			if got := without(b.last(event)); got != want {
				t.Errorf("%s: %s, want %s", event, got, want)
			}
		}
	})
}

// awaitAsked waits until the backend was asked about an event so many times.
func (b *testBackend) awaitAsked(event string, times int) {
	b.t.Helper()
	wait.Until(b.t, fmt.Sprintf("the backend is asked %d times about %s", times, event), func() bool { return len(b.askedAbout(event)) >= times })
}

// What a client asks for with a subscription has no effect where the backend decides.
func TestSubscribeProxyIgnoresWishes(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			o := &cfg.Channel.WithoutNamespace
			o.AllowRecovery, o.AllowPositioning, o.JoinLeave = true, true, true
		})
		const wishes = `"recoverable":true,"positioned":true,"join_leave":true`
		c := s.connect("u")
		if r := c.Subscribe("a", wishes); r.Recoverable || r.Positioned {
			t.Errorf("%+v", r)
		}
		s.connect("other").Subscribe("a", "")
		s.api("publish", `{"channel":"a","data":1}`)
		if push := c.Push(); push.Join != nil || push.Pub == nil {
			t.Errorf("%+v", push)
		}
	})
}

// Of subs in the answer to a connect, expire_at has no effect: neither one that is past, nor the
// moment when it is.
func TestConnectProxySubsDoNotExpire(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
			cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 50*time.Millisecond, time.Millisecond
		})
		b.answerExpiring("Subscribe", `{"result":{"expire_at":%d}}`)
		b.answer("SubRefresh", `{"result":{"expired":true}}`)
		b.answerExpiring("Connect", `{"result":{"user":"u","subs":{"past":{"expire_at":1},"soon":{"expire_at":%d}}}}`)
		c := s.dial(nil)
		if r := c.Connect(""); len(r.Subs) != 2 || r.Subs["past"].Expires || r.Subs["soon"].Expires {
			t.Errorf("%+v", r.Subs)
		}
		s.subscribeExpiring(c, "own")
		if push := c.Push(); push.Channel != "own" || push.Unsubscribe == nil { // it expired at the same time
			t.Errorf("%+v", push)
		}
		for _, ch := range []string{"past", "soon"} {
			c.Do(fmt.Sprintf(`"presence":{"channel":%q}`, ch)) // for subscribers alone
			if b.lastOf("SubRefresh", ch) != "" {
				t.Errorf("the backend was asked about %s", ch)
			}
		}
	})
}

// In answers to publish, plain data wins over base64; in all others, base64 does.
func TestProxyBase64Wins(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		both := func(name, value string) string {
			return fmt.Sprintf(`"%s":"plain","b64%s":%q`, name, name, base64.StdEncoding.EncodeToString([]byte(value)))
		}
		b.answer("Connect", `{"result":{"user":"u",`+both("info", `1`)+`,`+both("data", `2`)+`,"subs":{"own":{`+both("info", `3`)+`,`+both("data", `4`)+`}}}}`)
		b.answer("Subscribe", `{"result":{`+both("info", `5`)+`,`+both("data", `6`)+`}}`)
		b.answer("RPC", `{"result":{`+both("data", `7`)+`}}`)
		b.answer("Publish", `{"result":{`+both("data", `8`)+`}}`)
		c := s.dial(nil)
		r := c.Connect("")
		own := c.Do(`"presence":{"channel":"own"}`).Presence.Presence[r.Client]
		sub := c.Subscribe("a", "")
		there := c.Do(`"presence":{"channel":"a"}`).Presence.Presence[r.Client]
		rpc := c.Do(`"rpc":{"method":"m"}`).RPC
		got := fmt.Sprintf("%s %s %s %s %s %s %s", own.ConnInfo, r.Data, own.ChanInfo, r.Subs["own"].Data, there.ChanInfo, sub.Data, rpc.Data)
		if got != "1 2 3 4 5 6 7" {
			t.Error(got)
		}
		c.Do(`"publish":{"channel":"a","data":{}}`)
		if pub := c.Pub(); string(pub.Data) != `"plain"` {
			t.Errorf("published %s", pub.Data)
		}
	})
}

// A transform makes of a backend that is down one that ends subscriptions; without it, they live on.
func TestProxyTransformsSubRefresh(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit func(*config.StatusTransform)
		ends bool
	}{
		"none":       {nil, false},
		"other":      {func(x *config.StatusTransform) { x.StatusCode, x.ToError.Code = http.StatusNotFound, 1500 }, false},
		"error":      {func(x *config.StatusTransform) { x.ToError.Code, x.ToError.Message = 1500, "down" }, true},
		"disconnect": {func(x *config.StatusTransform) { x.ToDisconnect.Code, x.ToDisconnect.Reason = 4500, "down" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestBackend(t)
			s := startProxied(t, b, func(cfg *config.Config) {
				cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
				cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 50*time.Millisecond, time.Millisecond
				everything(cfg)
				if tt.edit != nil {
					x := config.StatusTransform{StatusCode: http.StatusInternalServerError}
					tt.edit(&x)
					cfg.Channel.Proxy.SubRefresh.HTTP.StatusToCodeTransforms = []config.StatusTransform{x}
				}
			})
			b.answerExpiring("Subscribe", `{"result":{"expire_at":%d}}`)
			b.answer("SubRefresh", `<html>`)
			c := s.connect("u")
			s.subscribeExpiring(c, "a")
			failures := 0.0
			if !tt.ends {
				failures = 1
			}
			b.awaitAsked("SubRefresh", 1)
			labels := []string{"name=default", "protocol=http", "type=sub_refresh"}
			s.wantMetric(1, "gyro_proxy_duration_seconds", labels...)
			s.wantMetric(failures, "gyro_proxy_errors", labels...)
			if tt.ends {
				if push := c.Push(); push.Unsubscribe == nil || push.Unsubscribe.Code != 2501 {
					t.Errorf("%+v", push)
				}
				return
			}
			c.Do(`"presence":{"channel":"a"}`) // for subscribers alone
			s.api("publish", `{"channel":"a","data":1}`)
			c.Pub()
		})
	}
}
