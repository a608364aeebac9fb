package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// oneWay is a one-way connection of a test.
type oneWay interface {
	// next returns the next push as JSON, or "end" and what else the transport says of the end.
	next() string
}

// oneWays open connections, by transport. request is a connect request in JSON.
var oneWays = map[string]func(s *testServer, request string) oneWay{
	"uni_websocket": openUniWebSocket,
	"uni_grpc":      openUniGRPC,
}

// onOneWays runs a test over each one-way transport.
func onOneWays(t *testing.T, edit func(*config.Config), test func(t *testing.T, s *testServer, open func(request string) oneWay)) {
	for name, open := range oneWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(cfg *config.Config) {
				everyOneWay(cfg)
				if edit != nil {
					edit(cfg)
				}
			})
			test(t, s, func(request string) oneWay { return open(s, request) })
		})
	}
}

func everyOneWay(cfg *config.Config) {
	everything(cfg)
	cfg.UniWebSocket.Enabled = true
	cfg.UniGRPC.Enabled, cfg.UniGRPC.Address, cfg.UniGRPC.Port = true, "127.0.0.1", 0
	cfg.Client.AllowAnonymousConnect = true
	o := &cfg.Channel.WithoutNamespace
	o.AllowSubscribeForClient, o.AllowSubscribeForAnonymous = true, true
	addNamespace(cfg, "stream", func(o *config.ChannelOptions) {
		open(o)
		o.Presence, o.JoinLeave, o.ForceRecovery = false, false, true
	})
}

// connected reads the connect push.
func connected(t *testing.T, c oneWay) (text string, r *protocol.Connect) {
	t.Helper()
	text = c.next()
	push := new(protocol.Push)
	if err := push.UnmarshalJSON([]byte(text)); err != nil || push.Connect == nil {
		t.Fatalf("got %s, want the connect push: %v", text, err)
	}
	return text, push.Connect
}

func wantNext(t *testing.T, c oneWay, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			t.Fatalf("got %s\nwant %s", got, w)
		}
	}
}

// ended has the end that a disconnect push announces.
func ended(code int, reason string) []string {
	push := fmt.Sprintf(`{"disconnect":{"code":%d,"reason":%q}}`, code, reason)
	return []string{push, "end"}
}

// TestOneWayConnect: the first push is that of the connect, and empty requests are alike.
func TestOneWayConnect(t *testing.T) {
	t.Parallel()
	onOneWays(t, nil, func(t *testing.T, s *testServer, open func(string) oneWay) {
		var seen []string
		for _, request := range []string{`{}`, `null`, `{"unknown":1}`} {
			text, r := connected(t, open(request))
			if r.Client == "" || r.Session == "" || r.Version != "test" || strings.Contains(text, `"node"`) || strings.Contains(text, `"pong"`) {
				t.Errorf("%s: %s", request, text)
			}
			seen = append(seen, strings.NewReplacer(r.Client, "C", r.Session, "S").Replace(text))
		}
		if seen[0] != seen[1] || seen[0] != seen[2] {
			t.Errorf("%q", seen)
		}
	})
}

// TestOneWayPings: a ping is an empty push, and no answer is waited for.
func TestOneWayPings(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) { cfg.Client.PingInterval, cfg.Client.PongTimeout = 1e9, 5e8 }
	onOneWays(t, edit, func(t *testing.T, s *testServer, open func(string) oneWay) {
		c := open(`{}`)
		if text, r := connected(t, c); r.Ping != 1 {
			t.Error(text)
		}
		wantNext(t, c, "{}", "{}", "{}")
	})
}

// TestOneWayRefused: what is wrong with a connect request becomes a disconnect.
func TestOneWayRefused(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) { cfg.Client.UserConnectionLimit = 1 }
	onOneWays(t, edit, func(t *testing.T, s *testServer, open func(string) oneWay) {
		expired := open("{" + s.tokenField(jwt.MapClaims{"sub": "u", "exp": unix(-3600e9)}) + "}")
		wantNext(t, expired, ended(3005, "connection expired")...)
		wantNext(t, open(`{"token":"x"}`), ended(3500, "invalid token")...)
		valid := "{" + s.tokenField(jwt.MapClaims{"sub": "u"}) + "}"
		connected(t, open(valid))
		wantNext(t, open(valid), ended(3504, "connection limit")...)
	})
}

// TestOneWayRecovery: what was missed is in the connect push, what comes later follows it.
func TestOneWayRecovery(t *testing.T) {
	t.Parallel()
	onOneWays(t, nil, func(t *testing.T, s *testServer, open func(string) oneWay) {
		_, r := connected(t, open(`{"subs":{"stream:a":{}}}`))
		epoch := r.Subs["stream:a"].Epoch
		s.api("publish", `{"channel":"stream:a","data":{"n":1}}`)
		s.api("publish", `{"channel":"stream:a","data":{"n":2}}`)
		c := open(fmt.Sprintf(`{"subs":{"stream:a":{"recover":true,"offset":1,"epoch":%q}}}`, epoch))
		text, r := connected(t, c)
		sub := r.Subs["stream:a"]
		if !sub.Recovered || len(sub.Publications) != 1 || string(sub.Publications[0].Data) != `{"n":2}` || sub.Publications[0].Offset != 2 {
			t.Error(text)
		}
		s.api("publish", `{"channel":"stream:a","data":{"n":3}}`)
		s.api("publish", `{"channel":"stream:a","data":{"n":4}}`)
		wantNext(t, c, `{"channel":"stream:a","pub":{"data":{"n":3},"offset":3}}`, `{"channel":"stream:a","pub":{"data":{"n":4},"offset":4}}`)
	})
}

// TestOneWayEnds: disconnects by the API, and by a shutdown.
func TestOneWayEnds(t *testing.T) {
	t.Parallel()
	onOneWays(t, nil, func(t *testing.T, s *testServer, open func(string) oneWay) {
		c := open("{" + s.tokenField(jwt.MapClaims{"sub": "u"}) + "}")
		connected(t, c)
		s.api("disconnect", `{"user":"u"}`)
		wantNext(t, c, ended(3503, "force disconnect")...)
		c = open(`{"subs":{"a":{}}}`)
		connected(t, c)
		s.api("publish", `{"channel":"a","data":1}`)
		if err := s.app.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantNext(t, c, `{"channel":"a","pub":{"data":1}}`)
		wantNext(t, c, ended(3001, "shutdown")...)
	})
}

// TestOneWayUserHeader: a proxy in front may say who the client is. Each kind of proxy has a name of its own.
func TestOneWayUserHeader(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) {
		cfg.Client.AllowAnonymousConnect, cfg.Client.UserIDHTTPHeader = false, "X-User"
		cfg.UniGRPC.UserIDMetadata = "x-user"
	}
	onOneWays(t, edit, func(t *testing.T, s *testServer, open func(string) oneWay) {
		c := open(`{}`)
		connected(t, c)
		s.api("disconnect", `{"user":"`+headerUser+`"}`)
		wantNext(t, c, ended(3503, "force disconnect")...)
	})
}

// TestMetadataIsNoHeader: clients of gRPC reach its port themselves, so that metadata does not name the user as a header does.
func TestMetadataIsNoHeader(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.Client.AllowAnonymousConnect, cfg.Client.UserIDHTTPHeader = false, "X-User"
	})
	wantNext(t, openUniGRPC(s, `{}`), ended(3501, "bad request")...)
}

// headerUser is what all one-way clients of the tests send in X-User.
const headerUser = "user-of-the-header"

var userHeader = http.Header{"X-User": {headerUser}}

// TestOneWayMetrics: the connections and their messages have the label of their transport.
func TestOneWayMetrics(t *testing.T) {
	t.Parallel()
	for name, open := range oneWays {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(cfg *config.Config) { measured(cfg); everyOneWay(cfg) })
			connected(t, open(s, `{"subs":{"a":{}}}`))
			s.wantMetric(1, "gyro_client_connections_inflight", "accept_protocol=", "client_name=unnamed", "client_version=unversioned", "transport="+name)
		})
	}
}
