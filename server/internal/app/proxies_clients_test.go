package app

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
)

// newTestBackend returns a backend over HTTP.
func newTestBackend(t *testing.T) *testBackend {
	b := &testBackend{t: t, answers: map[string]func() string{}, asked: map[string][]string{}}
	b.overHTTP()
	return b
}

// answerBy answers by the channel of the request.
func (b *testBackend) answerBy(event string, answers map[string]string) {
	channel := regexp.MustCompile(`"channel":"([^"]*)"`)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[event] = func() string { // with the lock
		asked := b.asked[event]
		return answers[channel.FindStringSubmatch(asked[len(asked)-1])[1]]
	}
}

// header returns the headers of the latest request.
func (b *testBackend) header() http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.headers
}

// The backend prolongs subscriptions, or ends them.
func TestSubRefreshProxy(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.Channel.WithoutNamespace.SubRefreshProxyEnabled = true
			cfg.Client.PresenceInterval, cfg.Client.ExpiredSubCloseDelay = 100*time.Millisecond, time.Millisecond
		})
		answers := map[string]string{
			"later":      `{"result":{"expire_at":9999999999,"info":{"role":"member"}}}`,
			"forever":    `{"result":{}}`,
			"failing":    `<html>`,
			"expired":    `{"result":{"expired":true,"expire_at":9999999999}}`,
			"past":       `{"result":{"expire_at":1}}`,
			"no result":  `{}`,
			"error":      `{"error":{"code":1000,"message":"x"}}`,
			"disconnect": `{"disconnect":{"code":4500,"reason":"x"}}`,
			"bad base64": `{"result":{"expire_at":9999999999,"b64info":"!"}}`,
		}
		lives := []string{"failing", "forever", "later"}
		b.answerBy("SubRefresh", answers)
		b.answer("Connect", `{"result":{"user":"42","meta":{"t":1}}}`)
		c := s.dial(nil)
		id := c.Connect("").Client
		b.answerExpiring("Subscribe", `{"result":{"expire_at":%d}}`)
		for ch := range answers {
			if r := s.subscribeExpiring(c, ch); r.Expires {
				t.Errorf("%s: the client is to refresh", ch)
			}
		}
		for range len(answers) - len(lives) {
			push := c.Push()
			if push.Unsubscribe == nil || push.Unsubscribe.Code != 2501 || slices.Contains(lives, push.Channel) {
				t.Errorf("%+v", push)
			}
		}
		for _, ch := range lives {
			s.awaitAsked(b, "SubRefresh", ch)
			c.Do(fmt.Sprintf(`"presence":{"channel":%q}`, ch)) // for subscribers alone
		}
		wait.Success(t, "the refreshed info", func() error {
			if info := c.Do(`"presence":{"channel":"later"}`).Presence.Presence[id].ChanInfo; string(info) != `{"role":"member"}` {
				return fmt.Errorf("channel info %s", info)
			}
			return nil
		})
		want := `{"transport":"websocket","protocol":"json","encoding":"json","user":"42","channel":"later","meta":{"t":1}}`
		if got := b.lastOf("SubRefresh", "later"); without(got) != want {
			t.Errorf("request %s", got)
		}
		if got, _ := c.Outcome(`"sub_refresh":{"channel":"later","token":"x"}`); got != "disconnect 3501" {
			t.Error(got)
		}
	})
}

// lastOf returns the latest request about an event of a channel.
func (b *testBackend) lastOf(event, ch string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range slices.Backward(b.asked[event]) {
		if strings.Contains(request, fmt.Sprintf(`"channel":%q`, ch)) {
			return request
		}
	}
	return ""
}

// awaitAsked waits until the backend was asked about an event of a channel.
func (s *testServer) awaitAsked(b *testBackend, event, ch string) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprintf("the backend is asked about %s of %s", event, ch), func() bool { return b.lastOf(event, ch) != "" })
}

// One-way clients cannot get an error, so they are disconnected. Metadata of clients over gRPC is
// forwarded, as are headers of those over WebSocket.
func TestProxyOneWay(t *testing.T) {
	t.Parallel()
	for name, open := range oneWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testProxyOneWay(t, func(s *testServer) oneWay { return open(s, `{}`) })
		})
	}
}

func testProxyOneWay(t *testing.T, open func(*testServer) oneWay) {
	b := newTestBackend(t)
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		proxied(b, func(cfg *config.Config) {
			cfg.Client.AllowAnonymousConnect = false
			cfg.Client.Proxy.Connect.GRPCMetadata, cfg.Client.Proxy.Connect.HTTPHeaders = []string{"x-user"}, []string{"X-User"}
		})(cfg)
	})
	s.expected = "backend"
	for _, tt := range []struct {
		answer string
		code   int
	}{
		{`{"error":{"code":109,"message":"x"}}`, 3005}, {`{"error":{"code":110,"message":"x"}}`, 3005},
		{`{"error":{"code":111,"message":"x"}}`, 3013}, {`{"error":{"code":103,"message":"x"}}`, 3507},
		{`{"error":{"code":1000,"message":"x"}}`, 3004}, {`<html>`, 3004}, {`{}`, 3501},
		{`{"disconnect":{"code":4500,"reason":"banned"}}`, 4500},
	} {
		b.answer("Connect", tt.answer)
		if got := open(s).next(); !strings.Contains(got, fmt.Sprintf(`"disconnect":{"code":%d,`, tt.code)) {
			t.Errorf("%s: %s, want %d", tt.answer, got, tt.code)
		}
	}
	b.answer("Connect", `{"result":{"channels":["a"]}}`)
	if _, r := connected(t, open(s)); len(r.Subs) != 1 {
		t.Errorf("%+v", r)
	}
	if got := b.header().Get("X-User"); got != headerUser {
		t.Errorf("forwarded %q", got)
	}
}

// The headers that go along with a call of an emulated client are those of its stream, not those
// of the request that brought the command.
func TestProxyHeadersOfStreams(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	s := startProxied(t, b, func(cfg *config.Config) {
		streaming(cfg)
		cfg.RPC.Proxy.HTTPHeaders = []string{"X-User"}
	})
	connect := `{"id":1,"connect":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `}}`
	c := s.openStream(s.newRequest(http.MethodPost, "/connection/http_stream", connect, "X-User", "stream")).connected()
	s.emulate(emulation(c.connect.Node, c.connect.Session, `{"id":2,"rpc":{"method":"m"}}`), "X-User", "emulation")
	c.want(`{"id":2,"rpc":{}}`)
	if got := b.header().Get("X-User"); got != "stream" {
		t.Errorf("forwarded %q", got)
	}
}

// A client of which no proxy forwards anything keeps no context of its own.
func TestProxyKeepsNothing(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	s := startProxied(t, b, func(cfg *config.Config) { cfg.RPC.Proxy.HTTPHeaders = []string{"X-Other"} })
	b.answer("Connect", `{"result":{}}`)
	c := s.dial(http.Header{"Cookie": {"a=1"}})
	c.Connect(`"headers":{"authorization":"t"}`)
	c.Do(`"rpc":{"method":"m"}`)
	if h := b.header(); h.Get("Cookie") != "" || h.Get("Authorization") != "" {
		t.Error(h)
	}
}

// A transform makes of a failing backend one that ends connections and subscriptions: they have no
// grace then.
func TestProxyTransforms(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	s := startProxied(t, b, func(cfg *config.Config) {
		for _, p := range []*config.Proxy{&cfg.Client.Proxy.Connect.Proxy, &cfg.Client.Proxy.Refresh.Proxy, &cfg.RPC.Proxy} {
			var x config.StatusTransform
			x.StatusCode, x.ToError.Code, x.ToError.Message = http.StatusInternalServerError, 1500, "down"
			p.HTTP.StatusToCodeTransforms = []config.StatusTransform{x}
		}
		cfg.Client.Proxy.Refresh.Enabled = true
	})
	for _, event := range []string{"Connect", "Refresh", "RPC"} {
		b.answer(event, `<html>`)
	}
	if got, _ := s.dial(nil).Outcome(`"connect":{}`); got != "error 1500" {
		t.Error(got)
	}
	c := s.connect("u")
	if got, _ := c.Outcome(`"rpc":{}`); got != "error 1500" {
		t.Error(got)
	}
	c, _ = s.connectExpiring(nil, jwt.MapClaims{"sub": "u"}, "")
	if got := c.Disconnected().Code; got != 3005 {
		t.Error(got)
	}
}
