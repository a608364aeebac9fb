package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/config"
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
		b.answer("Subscribe", fmt.Sprintf(`{"result":{"expire_at":%d}}`, time.Now().Unix()+2))
		b.answer("Refresh", `{"result":{"expire_at":9999999999}}`)
		b.answer("SubRefresh", `{"result":{}}`)
		c := s.dial(http.Header{"X-Real": {"real"}})
		c.Connect(s.tokenField(jwt.MapClaims{
			"sub": "ann", "exp": unix(2 * time.Second), "meta": map[string]any{"n": 1}, "labels": map[string]any{"region": "eu"},
			"org": map[string]any{"tenant": "t1", "plan": "pro"},
		}) + `,"headers":{"x-emulated":"mine"}`)
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
		c.Subscribe("a", "")
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
		b.answer("Connect", fmt.Sprintf(`{"result":{"user":"u","expire_at":%d,"meta":{"n":1},"labels":{"region":"eu"}}}`, time.Now().Unix()+2))
		b.answer("Refresh", `{"result":{"expire_at":9999999999,"meta":{"n":2},"labels":{"region":"us"}}}`)
		c := s.dial(nil)
		if r := c.Connect(""); strings.Contains(jsonText(r), "region") || strings.Contains(jsonText(r), `"n"`) {
			t.Errorf("%+v", r)
		}
		b.awaitAsked("Refresh", 1)
		want := `{"transport":"websocket","protocol":"json","encoding":"json","user":"u","method":"m","meta":{"n":2},"labels":{"region":"eu"}}`
		var got string
		for end := time.Now().Add(20 * time.Second); got != want && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			c.Do(`"rpc":{"method":"m"}`)
			got = without(b.last("RPC"))
		}
		if got != want {
			t.Errorf("request %s, want %s", got, want)
		}
	})
}
