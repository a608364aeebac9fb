package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// What the token of a connection says reaches the backend with every later event: user, meta and
// labels; and so do the headers of the connection.
func TestTokenReachesProxies(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.Client.Proxy.Refresh.Enabled = true
			cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
			cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 100*time.Millisecond, time.Millisecond
			cfg.Client.Token.MetaFromClaim = map[string]string{"org.tenant": "tenant"}
			cfg.Client.Token.LabelsFromClaim = map[string]string{"org.plan": "plan"}
			cfg.RPC.Proxy.IncludeConnMeta = false
			for _, p := range []*config.Proxy{
				&cfg.Client.Proxy.Refresh.Proxy, &cfg.Channel.Proxy.Subscribe, &cfg.Channel.Proxy.Publish, &cfg.Channel.Proxy.SubRefresh, &cfg.RPC.Proxy,
			} {
				p.HTTPHeaders, p.EmulatedHeaders = []string{"X-Real"}, []string{"X-Emulated"}
			}
		})
		b.answerExpiring("Subscribe", `{"result":{"expire_at":%d}}`)
		b.answer("Refresh", `{"result":{"expire_at":9999999999}}`)
		b.answer("SubRefresh", `{"result":{}}`)
		c, _ := s.connectExpiring(http.Header{"X-Real": {"real"}}, jwt.MapClaims{
			"sub": "ann", "meta": map[string]any{"n": 1}, "labels": map[string]any{"region": "eu"},
			"org": map[string]any{"tenant": "t1", "plan": "pro"},
		}, `,"headers":{"x-emulated":"mine"}`)
		head := `{"transport":"websocket","protocol":"json","encoding":"json","user":"ann",`
		const meta, labels = `"meta":{"n":1,"tenant":"t1"}`, `"labels":{"plan":"pro","region":"eu"}`
		check := func(event, want string) {
			t.Helper()
			got := strings.Replace(without(b.last(event)), `{"region":"eu","plan":"pro"}`, `{"plan":"pro","region":"eu"}`, 1)
			if got != head+want {
				t.Errorf("%s: %s, want %s", event, got, head+want)
			}
			if h := b.header(); h.Get("X-Real") != "real" || h.Get("X-Emulated") != "mine" {
				t.Errorf("%s: %v", event, h)
			}
		}
		s.subscribeExpiring(c, "a")
		check("Subscribe", `"channel":"a",`+meta+`,`+labels+`}`)
		c.Do(`"publish":{"channel":"a","data":1}`)
		check("Publish", `"channel":"a","data":1,`+meta+`,`+labels+`}`)
		c.Do(`"rpc":{"method":"m"}`)
		check("RPC", `"method":"m",`+labels+`}`)
		b.awaitAsked("Refresh", 1)
		check("Refresh", meta+`,`+labels+`}`)
		b.awaitAsked("SubRefresh", 1)
		check("SubRefresh", `"channel":"a",`+meta+`,`+labels+`}`)
	})
}

// Labels that the connect proxy gives stay, meta changes with each refresh, and clients see neither.
func TestConnectProxyLabels(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) { cfg.Client.Proxy.Refresh.Enabled = true })
		b.answerExpiring("Connect", `{"result":{"user":"u","expire_at":%d,"meta":{"n":1},"labels":{"region":"eu"}}}`)
		b.answer("Refresh", `{"result":{"expire_at":9999999999,"meta":{"n":2},"labels":{"region":"us"}}}`)
		c, r := s.outlive(nil, "error 110", func() string { return "" })
		if strings.Contains(jsonText(r), "region") || strings.Contains(jsonText(r), `"n"`) {
			t.Errorf("%+v", r)
		}
		b.awaitAsked("Refresh", 1)
		want := `{"transport":"websocket","protocol":"json","encoding":"json","user":"u","method":"m","meta":{"n":2},"labels":{"region":"eu"}}`
		var got string
		wait.Success(t, "the refreshed meta", func() error {
			c.Do(`"rpc":{"method":"m"}`)
			if got = without(b.last("RPC")); got != want {
				return fmt.Errorf("request %s, want %s", got, want)
			}
			return nil
		})
	})
}
