package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
)

func jsonText(v any) string { return string(must(json.Marshal(v))) }

// TestConnectToken: what a connection token grants.
func TestConnectToken(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "feed", open)
		addNamespace(cfg, "kept", func(o *config.ChannelOptions) { open(o); o.ForceRecovery = true })
	})
	c := s.dial(nil)
	res := c.Connect(s.tokenField(jwt.MapClaims{
		"sub": "42", "info": map[string]any{"name": "Ann"}, "channels": []string{"ignored"},
		"subs": map[string]any{
			"feed:42":        map[string]any{"data": map[string]any{"hello": true}, "info": "i", "override": map[string]any{"presence": map[string]any{"value": false}}},
			"kept:42":        map[string]any{"b64data": "eyJ4IjoxfQ=="},
			"$feed:\u00e9#1": map[string]any{}, // name checks do not apply
		},
	}))
	if len(res.Subs) != 3 || string(res.Subs["feed:42"].Data) != `{"hello":true}` || string(res.Subs["kept:42"].Data) != `{"x":1}` {
		t.Errorf("subscriptions: %s", jsonText(res.Subs))
	}
	if sub := res.Subs["kept:42"]; !sub.Recoverable || !sub.Positioned || sub.Epoch == "" {
		t.Errorf("options of the namespace are not in force: %+v", sub)
	}
	if p := c.Do(`"presence":{"channel":"feed:42"}`).Presence.Presence; len(p) != 0 {
		t.Errorf("presence in spite of the override: %v", p)
	}
	p := c.Do(`"presence":{"channel":"kept:42"}`).Presence.Presence[res.Client]
	if p == nil || p.User != "42" || string(p.ConnInfo) != `{"name":"Ann"}` {
		t.Errorf("presence is %+v", p)
	}
	s.api("publish", `{"channel":"$feed:\u00e9#1","data":{}}`)
	if push := c.Push(); push.Channel != "$feed:\u00e9#1" || push.Pub == nil {
		t.Errorf("got %+v", push)
	}
	// channels counts without subs.
	res = s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": "42", "channels": []string{"feed:1", "plain"}}))
	if res.Subs["feed:1"] == nil || res.Subs["plain"] == nil {
		t.Errorf("subscriptions: %s", jsonText(res.Subs))
	}
}

func TestConnectLimits(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.ChannelLimit, cfg.Client.UserConnectionLimit = 2, 2
	})
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"channels": []string{"a", "b", "c"}}) + `}`); got != "disconnect 3505" {
		t.Errorf("three subscriptions: %s", got)
	}
	s.connect("u")
	s.connect("u")
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `}`); got != "disconnect 3504" {
		t.Errorf("third connection of a user: %s", got)
	}
	for range 3 {
		s.connect("") // anonymous users are exempt
	}
}

// TestExpiration: expires and ttl, and the close after the delay.
func TestExpiration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, func(cfg *config.Config) { cfg.Client.ExpiredCloseDelay = time.Millisecond })
		soon := s.pipe()
		if res := soon.Connect(s.tokenField(jwt.MapClaims{"exp": unix(5 * time.Second)})); !res.Expires || res.TTL == 0 || res.TTL > 5 {
			t.Errorf("got %+v", res)
		}
		if res := s.pipe().Connect(s.tokenField(jwt.MapClaims{"exp": unix(time.Minute), "expire_at": 0})); res.Expires {
			t.Errorf("expire_at 0: %+v", res)
		}
		if res := s.pipe().Connect(s.tokenField(jwt.MapClaims{"exp": unix(time.Minute), "expire_at": unix(time.Hour)})); res.TTL < 3500 {
			t.Errorf("expire_at later than exp: %+v", res)
		}
		if res := s.pipe().Connect(s.tokenField(jwt.MapClaims{"expire_at": unix(100000 * time.Hour)})); res.TTL != 31536000 {
			t.Errorf("ttl is not capped to a year: %d", res.TTL)
		}
		if d := soon.Disconnected(); d != protocol.DisconnectExpired {
			t.Errorf("ended with %v", d)
		}
	})
}

// TestServerSubscriptionExpires: when a subscription expires that the server API made, its
// client may connect again: there is no token that could be invalid.
func TestServerSubscriptionExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, func(cfg *config.Config) {
			cfg.Client.ExpiredSubCloseDelay, cfg.Client.PresenceInterval = time.Millisecond, 100*time.Millisecond
		})
		c := s.pipe()
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u"}))
		if _, err := s.app.newExecutor().Subscribe(t.Context(), &api.SubscribeRequest{User: "u", Channel: "a", ExpireAt: unix(5 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if push := c.Push(); push.Channel != "a" || push.Subscribe == nil {
			t.Fatalf("got %+v", push)
		}
		if d := c.Disconnected(); d != protocol.DisconnectSubExpired {
			t.Errorf("ended with %v", d)
		}
	})
}

// refreshTests are outcomes of a refresh of user u, who is subscribed to a by its
// connection token and to b by a command.
var refreshTests = []struct {
	name    string
	claims  jwt.MapClaims
	token   string
	want    string
	expires bool
}{
	{name: "prolonged", claims: jwt.MapClaims{"sub": "u", "channels": []string{"a"}, "exp": unix(time.Hour)}, want: "ok", expires: true},
	{name: "for ever", claims: jwt.MapClaims{"sub": "u", "channels": []string{"a"}}, want: "ok"},
	{name: "other options", claims: jwt.MapClaims{"sub": "u", "subs": map[string]any{"a": map[string]any{"data": 1}}}, want: "ok"},
	{name: "subscribed by command", claims: jwt.MapClaims{"sub": "u", "channels": []string{"a", "b"}}, want: "ok"},
	{name: "empty", token: "", want: "disconnect 3501"},
	{name: "expired", claims: jwt.MapClaims{"sub": "u", "exp": unix(-time.Hour)}, want: "disconnect 3005"},
	{name: "invalid", token: "eyJ.x.y", want: "disconnect 3500"},
	{name: "another user", claims: jwt.MapClaims{"sub": "v", "channels": []string{"a"}}, want: "disconnect 3500"},
	{name: "expire_at past", claims: jwt.MapClaims{"sub": "u", "channels": []string{"a"}, "expire_at": unix(-time.Hour)}, want: "error 110"},
	{name: "expire_at past and less channels", claims: jwt.MapClaims{"sub": "u", "expire_at": unix(-time.Hour)}, want: "error 110"},
	{name: "less channels", claims: jwt.MapClaims{"sub": "u"}, want: "disconnect 3010"},
	{name: "more channels", claims: jwt.MapClaims{"sub": "u", "channels": []string{"a", "c"}}, want: "disconnect 3010"},
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { open(&cfg.Channel.WithoutNamespace) })
	for _, tt := range refreshTests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.dial(nil)
			c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "exp": unix(time.Minute), "channels": []string{"a"}}))
			c.Subscribe("b", "")
			token := tt.token
			if tt.claims != nil {
				token = s.token(tt.claims)
			}
			got, reply := c.Outcome(`"refresh":{"token":"` + token + `"}`)
			if got != tt.want || got == "ok" && reply.Refresh.Expires != tt.expires {
				t.Errorf("got %s %+v, want %s", got, reply, tt.want)
			}
		})
	}
}

// TestRefreshInfo: a refresh replaces the connection info, and removes the
// expiration if the new token has none.
func TestRefreshInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, func(cfg *config.Config) {
			open(&cfg.Channel.WithoutNamespace)
			cfg.Client.ExpiredCloseDelay = time.Millisecond
		})
		c := s.pipe()
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "exp": unix(5 * time.Second), "info": 1}))
		expiring := s.pipe()
		expiring.Connect(s.tokenField(jwt.MapClaims{"sub": "v", "exp": unix(5 * time.Second)}))
		c.Do(`"refresh":{` + s.tokenField(jwt.MapClaims{"sub": "u", "info": 2}) + `}`)
		c.Subscribe("a", "")
		c.Do(`"publish":{"channel":"a","data":{}}`)
		if pub := c.Pub(); string(pub.Info.ConnInfo) != "2" {
			t.Errorf("info is %s", pub.Info.ConnInfo)
		}
		expiring.Disconnected()
		c.Do(`"presence":{"channel":"a"}`) // is still there
	})
}

// subscribeTokenTests are outcomes of a subscribe command of user u for $a with a
// token. The hours begin when the tests of the package do, which may take minutes.
var subscribeTokenTests = []struct {
	name   string
	claims jwt.MapClaims
	token  string
	want   string
	sub    func(*protocol.SubscribeResult) bool
}{
	{name: "granted", claims: jwt.MapClaims{"sub": "u", "channel": "$a"}, want: "ok",
		sub: func(r *protocol.SubscribeResult) bool { return !r.Expires && !r.Recoverable }},
	{name: "expiring", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(time.Hour)}, want: "ok",
		sub: func(r *protocol.SubscribeResult) bool { return r.Expires && r.TTL > 1800 }},
	{name: "one-time", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(time.Hour), "expire_at": 0}, want: "ok",
		sub: func(r *protocol.SubscribeResult) bool { return !r.Expires }},
	{name: "data", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "data": []int{1}}, want: "ok",
		sub: func(r *protocol.SubscribeResult) bool { return string(r.Data) == "[1]" }},
	{name: "override", claims: jwt.MapClaims{"sub": "u", "channel": "$a",
		"override": map[string]any{"force_recovery": map[string]any{"value": true}}}, want: "ok",
		sub: func(r *protocol.SubscribeResult) bool { return r.Recoverable && r.Positioned }},
	{name: "expired", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(-time.Hour)}, want: "error 109"},
	{name: "not yet valid", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "nbf": unix(time.Hour)}, want: "error 109"},
	{name: "invalid", token: "eyJ.eyJ.x", want: "error 103"},
	{name: "no channel", claims: jwt.MapClaims{"sub": "u"}, want: "error 103"},
	{name: "unknown namespace", claims: jwt.MapClaims{"sub": "u", "channel": "no:a"}, want: "error 102"},
	{name: "another channel", claims: jwt.MapClaims{"sub": "u", "channel": "a"}, want: "disconnect 3500"},
	{name: "another user", claims: jwt.MapClaims{"sub": "v", "channel": "$a"}, want: "disconnect 3500"},
	{name: "no user", claims: jwt.MapClaims{"channel": "$a"}, want: "disconnect 3500"},
	{name: "another client", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "client": "x"}, want: "disconnect 3500"},
	{name: "expire_at past", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "expire_at": unix(-time.Hour)}, want: "error 110"},
}

func TestSubscribeToken(t *testing.T) {
	t.Parallel()
	// Insecure mode changes nothing about tokens.
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.Insecure = true
		o := &cfg.Channel.WithoutNamespace
		o.HistorySize, o.HistoryTTL = 10, time.Minute
	})
	for _, tt := range subscribeTokenTests {
		t.Run(tt.name, func(t *testing.T) {
			token := tt.token
			if tt.claims != nil {
				token = s.token(tt.claims)
			}
			got, reply := s.connect("u").Outcome(`"subscribe":{"channel":"$a","token":"` + token + `"}`)
			if got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
			if tt.sub != nil && !tt.sub(reply.Subscribe) {
				t.Errorf("got %+v", reply.Subscribe)
			}
		})
	}
}

// TestSeparateSubscribeToken: an enabled section of its own alone counts.
func TestSeparateSubscribeToken(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.SubscriptionToken.Enabled = true
		cfg.Client.SubscriptionToken.HMACSecretKey = "subscription-secret"
	})
	s.secrets = append(s.secrets, "subscription-secret")
	c := s.connect("u")
	claims := jwt.MapClaims{"sub": "u", "channel": "$a"}
	if got, _ := c.Outcome(`"subscribe":{"channel":"$a",` + s.tokenField(claims) + `}`); got != "error 103" {
		t.Errorf("by the connection secret: %s", got)
	}
	token := s.sign(jwt.SigningMethodHS256, []byte("subscription-secret"), claims)
	if got, _ := c.Outcome(`"subscribe":{"channel":"$a","token":"` + token + `"}`); got != "ok" {
		t.Errorf("by the subscription secret: %s", got)
	}
}

// subRefreshTests are outcomes of a sub refresh of user u for $a.
var subRefreshTests = []struct {
	name    string
	channel string
	claims  jwt.MapClaims
	token   string
	want    string
	expires bool
}{
	{name: "prolonged", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(time.Hour)}, want: "ok", expires: true},
	{name: "for ever", claims: jwt.MapClaims{"sub": "u", "channel": "$a"}, want: "ok"},
	{name: "no channel", channel: "-", token: "x", want: "disconnect 3501"},
	{name: "not subscribed", channel: "$b", claims: jwt.MapClaims{"sub": "u", "channel": "$b"}, want: "error 103"},
	{name: "empty", want: "error 107"},
	{name: "invalid", token: "x", want: "disconnect 3500"},
	{name: "another channel", claims: jwt.MapClaims{"sub": "u", "channel": "$b"}, want: "disconnect 3500"},
	{name: "another user", claims: jwt.MapClaims{"sub": "v", "channel": "$a"}, want: "disconnect 3500"},
	{name: "another client", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "client": "x"}, want: "disconnect 3500"},
	{name: "expire_at past", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "expire_at": unix(-time.Hour)}, want: "error 110"},
	{name: "expired", claims: jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(-time.Hour)}, want: "error 109"},
}

func TestSubRefresh(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	for _, tt := range subRefreshTests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.connect("u")
			c.Subscribe("$a", s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(time.Minute)}))
			ch, token := "$a", tt.token
			if tt.channel != "" {
				ch = strings.Trim(tt.channel, "-")
			}
			if tt.claims != nil {
				token = s.token(tt.claims)
			}
			got, reply := c.Outcome(`"sub_refresh":{"channel":"` + ch + `","token":"` + token + `"}`)
			if got != tt.want || got == "ok" && reply.SubRefresh.Expires != tt.expires {
				t.Errorf("got %s %+v, want %s", got, reply, tt.want)
			}
		})
	}
}

// TestSubscriptionExpiration: 2501 for a subscription of the client, on a presence
// tick after the delay. An expired token at refresh does not prolong it.
func TestSubscriptionExpiration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startVirtual(t, func(cfg *config.Config) {
			cfg.Client.ExpiredSubCloseDelay, cfg.Client.PresenceInterval = time.Millisecond, 100*time.Millisecond
		})
		c := s.pipe()
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u"}))
		c.Subscribe("$a", s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(5 * time.Second)}))
		if got, _ := c.Outcome(`"sub_refresh":{"channel":"$a",` + s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a", "exp": unix(-time.Hour)}) + `}`); got != "error 109" {
			t.Errorf("expired token: %s", got)
		}
		if push := c.Push(); push.Channel != "$a" || push.Unsubscribe == nil || push.Unsubscribe.Code != 2501 {
			t.Errorf("got %+v", push)
		}
	})
}

func personal(single bool) func(*config.Config) {
	return func(cfg *config.Config) {
		addNamespace(cfg, "me", func(o *config.ChannelOptions) { o.Presence = true })
		cfg.Client.UserPersonalChannel = config.PersonalChannel{Enabled: true, Namespace: "me", SingleConnection: single}
		cfg.Client.UserIDHTTPHeader = "X-User"
	}
}

// TestPersonalChannel: users are subscribed to a channel of their own, if that is configured.
func TestPersonalChannel(t *testing.T) {
	t.Parallel()
	s := startServer(t, personal(false))
	c := s.dial(nil)
	res := c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "subs": map[string]any{"me:#u": map[string]any{"data": 1}}}))
	if sub := res.Subs["me:#u"]; len(res.Subs) != 1 || sub == nil || sub.Data != nil {
		t.Errorf("it does not replace the one of the token: %s", jsonText(res.Subs))
	}
	s.api("publish", `{"channel":"me:#u","data":1}`)
	c.Pub()
	// A token refresh that does not name it is fine.
	c.Do(`"refresh":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `}`)
	if res := s.dial(nil).Connect(s.tokenField(jwt.MapClaims{})); len(res.Subs) != 0 {
		t.Errorf("anonymous: %s", jsonText(res.Subs))
	}
	if res := s.dial(http.Header{"X-User": {"u"}}).Connect(`"subs":{"me:#u":{}}`); len(res.Subs) != 0 {
		t.Errorf("by header: %s", jsonText(res.Subs))
	}
}

func TestPersonalChannelWithoutNamespace(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.Client.UserPersonalChannel.Enabled = true })
	if res := s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": "u"})); res.Subs["#u"] == nil {
		t.Errorf("subscriptions: %s", jsonText(res.Subs))
	}
}

func TestSingleConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t, personal(true))
	other, anonymous := s.connect("v"), s.connect("")
	var last *wstest.Client
	for range 3 {
		c := s.connect("u")
		if last != nil {
			if d := last.Disconnected(); d != protocol.DisconnectConnectionLimit {
				t.Errorf("ended with %v", d)
			}
		}
		last = c
	}
	for _, c := range []*wstest.Client{last, other, anonymous} {
		if got, _ := c.Outcome(`"presence":{"channel":"me:a"}`); got != "error 103" {
			t.Errorf("got %s", got)
		}
	}
}
