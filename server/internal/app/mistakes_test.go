package app

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// mistake is what people do wrong in their first hours, and what the server says to that.
type mistake struct {
	name string
	edit func(*config.Config)
	// do makes the mistake, and returns what it gets: the outcome of a command, or the
	// status and body of an answer.
	do   func(s *testServer) string
	want string
	// line has members that one line of the log must have, in any order. level is info
	// by default.
	line map[string]any
}

type fields = map[string]any

// chat adds a namespace chat, with the default options but for what edit changes.
func chat(edit func(*config.ChannelOptions)) func(*config.Config) {
	return func(cfg *config.Config) {
		o := config.DefaultConfig().Channel.WithoutNamespace
		if edit != nil {
			edit(&o)
		}
		cfg.Channel.Namespaces = []config.Namespace{{Name: "chat", ChannelOptions: o}}
	}
}

// command is one of a client with the user u, behind those before it.
func command(command string, before ...string) func(*testServer) string {
	return func(s *testServer) string {
		c := s.connect("u")
		for _, b := range before {
			c.Do(b)
		}
		got, _ := c.Outcome(command)
		return got
	}
}

// connecting is the connect command of a client.
func connecting(fields func(s *testServer) string) func(*testServer) string {
	return func(s *testServer) string {
		got, _ := s.dial(nil).Outcome(`"connect":{` + fields(s) + `}`)
		return got
	}
}

func withToken(claims jwt.MapClaims) func(*testServer) string {
	return connecting(func(s *testServer) string { return s.tokenField(claims) })
}

// request is one over HTTP: a method and a path, "Name: value" fields, and the body.
func request(line, body string, header ...string) func(*testServer) string {
	return func(s *testServer) string {
		method, path, _ := strings.Cut(line, " ")
		req := must(http.NewRequest(method, s.url(path), strings.NewReader(body)))
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Status + " " + string(must(io.ReadAll(resp.Body)))
	}
}

var upgrade = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

const withKey = "X-API-Key: " + apiKey

func past() int64 { return time.Now().Add(-time.Hour).Unix() }

// admissionMistakes keep clients from connecting at all: origins and limits.
var admissionMistakes = []mistake{
	{"foreign origin", func(cfg *config.Config) {
		cfg.Client.AllowedOrigins = []string{"https://mine.example", "http://localhost:*"}
	},
		request("GET /connection/websocket", "", append(upgrade, "Origin: http://127.0.0.1:3000")...),
		"403 Forbidden origin not allowed: client.allowed_origins of the server does not name it\n",
		fields{"message": "connection refused: its origin is not allowed", "origin": "http://127.0.0.1:3000", "key": "client.allowed_origins",
			"reason": "client.allowed_origins allows https://mine.example, http://localhost:*"}},
	{"foreign origin, none allowed", nil, request("GET /connection/websocket", "", append(upgrade, "Origin: http://127.0.0.1:3000")...),
		"403 Forbidden origin not allowed: client.allowed_origins of the server does not name it\n",
		fields{"reason": "client.allowed_origins is empty, so pages of no origin are allowed"}},
	{"connection limit", func(cfg *config.Config) { cfg.Client.ConnectionLimit = 1 }, func(s *testServer) string {
		s.connect("u")
		return request("GET /connection/websocket", "", upgrade...)(s)
	}, "503 Service Unavailable Service Unavailable: the node has as many connections as client.connection_limit allows\n",
		fields{"message": "connection refused: there are too many", "level": "warn", "key": "client.connection_limit"}},
	{"connection rate limit", func(cfg *config.Config) { cfg.Client.ConnectionRateLimit = 1 }, func(s *testServer) string {
		s.connect("u")
		return request("GET /connection/websocket", "", upgrade...)(s)
	}, "503 Service Unavailable Service Unavailable: more connections come in a second than client.connection_rate_limit allows\n",
		fields{"message": "connection refused: there are too many", "key": "client.connection_rate_limit"}},
	{"user connection limit", func(cfg *config.Config) { cfg.Client.UserConnectionLimit = 1 }, func(s *testServer) string {
		s.connect("u")
		return withToken(jwt.MapClaims{"sub": "u"})(s)
	}, "disconnect 3504", fields{"message": "client refused: its user has too many connections", "user": "u", "key": "client.user_connection_limit", "reason": "the limit is 1"}},
}

// credentialMistakes are those of connect and refresh commands.
var credentialMistakes = []mistake{
	{"no token", nil, connecting(func(*testServer) string { return "" }), "disconnect 3501",
		fields{"message": "connect refused", "code": 3501.0, "key": "client.allow_anonymous_connect_without_token"}},
	{"malformed token", nil, connecting(func(*testServer) string { return `"token":"abc"` }), "disconnect 3500",
		fields{"message": "connect refused", "code": 3500.0, "reason": "it does not begin with eyJ"}},
	{"foreign token", func(cfg *config.Config) { cfg.Client.Token.HMACSecretKey = "another" }, withToken(jwt.MapClaims{"sub": "u"}), "disconnect 3500",
		fields{"message": "connect refused", "key": "client.token.hmac_secret_key", "unverified_user": "u",
			"reason": "its signature does not verify: it is signed with another key"}},
	{"no secret", func(cfg *config.Config) { cfg.Client.Token.HMACSecretKey = "" }, withToken(jwt.MapClaims{"sub": "u"}), "disconnect 3500",
		fields{"key": "client.token.hmac_secret_key", "reason": "there is no key for its algorithm"}},
	{"expired token", nil, withToken(jwt.MapClaims{"sub": "u", "exp": past()}), "error 109",
		fields{"message": "connect refused", "user": "u", "code": 109.0, "reason": "claim exp is past: the client has to get a new token"}},
	{"foreign issuer", func(cfg *config.Config) { cfg.Client.Token.Issuer = "me" }, withToken(jwt.MapClaims{"sub": "u", "iss": "you"}), "disconnect 3500",
		fields{"key": "client.token.issuer", "unverified_user": "u", "reason": "claim iss is not the configured issuer"}},
	{"token without user", func(cfg *config.Config) { cfg.Client.DisallowAnonymousTokens = true }, withToken(jwt.MapClaims{}), "disconnect 3507",
		fields{"message": "connect refused", "key": "client.disallow_anonymous_connection_tokens"}},
	{"user in user_id", nil, withToken(jwt.MapClaims{"user_id": "u"}), "ok",
		fields{"message": "the client is anonymous: its token names the user in another claim than the expected one", "level": "warn",
			"claim": "user_id", "expected": "sub", "key": "client.token.user_id_claim"}},
	{"refresh with the token of another user", nil, func(s *testServer) string {
		c := s.dial(nil)
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "u", "exp": time.Now().Add(time.Hour).Unix()}))
		got, _ := c.Outcome(`"refresh":{` + s.tokenField(jwt.MapClaims{"sub": "v"}) + `}`)
		return got
	}, "disconnect 3500", fields{"message": "refresh refused", "user": "u", "reason": "the token is of another user than the connection"}},
	{"requested channel", chat(nil), connecting(func(s *testServer) string { return s.tokenField(jwt.MapClaims{"sub": "u"}) + `,"subs":{"chat:a":{}}` }), "ok",
		fields{"message": "channel of a connect command ignored", "user": "u", "channel": "chat:a", "key": "channel.namespaces[chat].allow_subscribe_for_client"}},
	{"requested channel of an unknown namespace", nil, connecting(func(s *testServer) string { return s.tokenField(jwt.MapClaims{"sub": "u"}) + `,"subs":{"chta:a":{}}` }), "disconnect 3501",
		fields{"message": "channel of a connect command refused", "user": "u", "channel": "chta:a", "code": 3501.0, "key": "channel.namespaces"}},
}

// channelMistakes are commands that a channel, a namespace or a limit does not allow.
var channelMistakes = []mistake{
	{"unknown namespace", nil, command(`"subscribe":{"channel":"chta:a"}`), "error 102",
		fields{"message": "subscribe refused", "user": "u", "channel": "chta:a", "code": 102.0, "key": "channel.namespaces"}},
	{"subscribe not allowed", chat(nil), command(`"subscribe":{"channel":"chat:a"}`), "error 103",
		fields{"message": "subscribe refused", "user": "u", "channel": "chat:a", "code": 103.0, "key": "channel.namespaces[chat].allow_subscribe_for_client",
			"reason": "allow_subscribe_for_client is off in namespace chat, and the client has no subscription token"}},
	{"private channel without token", nil, command(`"subscribe":{"channel":"$a"}`), "error 103",
		fields{"message": "subscribe refused", "channel": "$a", "key": "channel.private_prefix"}},
	{"subscription token of another channel", nil, func(s *testServer) string {
		return command(`"subscribe":{"channel":"$a",` + s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$b"}) + `}`)(s)
	}, "disconnect 3500", fields{"message": "subscribe refused", "channel": "$a", "reason": "claim channel of the subscription token is another channel"}},
	{"expired subscription token", nil, func(s *testServer) string {
		return command(`"subscribe":{"channel":"$a",` + s.tokenField(jwt.MapClaims{"sub": "u", "channel": "$a", "exp": past()}) + `}`)(s)
	}, "error 109", fields{"message": "subscribe refused", "channel": "$a", "code": 109.0, "reason": "claim exp is past: the client has to get a new token"}},
	{"publish not allowed", chat(func(o *config.ChannelOptions) { o.AllowSubscribeForClient = true }),
		command(`"publish":{"channel":"chat:a","data":1}`, `"subscribe":{"channel":"chat:a"}`), "error 103",
		fields{"message": "publish refused", "user": "u", "channel": "chat:a", "key": "channel.namespaces[chat].allow_publish_for_subscriber"}},
	{"publish no data", chat(func(o *config.ChannelOptions) { o.AllowPublishForClient = true }), command(`"publish":{"channel":"chat:a"}`), "error 107",
		fields{"message": "publish refused", "channel": "chat:a", "code": 107.0, "key": "channel.namespaces[chat].publication_data_format"}},
	{"presence off", chat(nil), command(`"presence":{"channel":"chat:a"}`), "error 108",
		fields{"message": "presence refused", "channel": "chat:a", "code": 108.0, "key": "channel.namespaces[chat].presence", "reason": "presence is off in namespace chat"}},
	{"presence not allowed", chat(func(o *config.ChannelOptions) { o.Presence, o.AllowSubscribeForClient = true, true }),
		command(`"presence":{"channel":"chat:a"}`, `"subscribe":{"channel":"chat:a"}`), "error 103",
		fields{"message": "presence refused", "channel": "chat:a", "code": 103.0, "key": "channel.namespaces[chat].allow_presence_for_subscriber",
			"reason": "allow_presence_for_subscriber is off in namespace chat"}},
	{"presence stats without namespace", func(cfg *config.Config) { cfg.Channel.WithoutNamespace.Presence = true }, command(`"presence_stats":{"channel":"a"}`), "error 103",
		fields{"message": "presence stats refused", "channel": "a", "key": "channel.without_namespace.allow_presence_for_client"}},
	{"history off", chat(nil), command(`"history":{"channel":"chat:a"}`), "error 108",
		fields{"message": "history refused", "channel": "chat:a", "key": "channel.namespaces[chat].history_size"}},
	{"history from an unknown epoch", chat(func(o *config.ChannelOptions) { o.AllowHistoryForClient = true; historyOn(o) }),
		command(`"history":{"channel":"chat:a","since":{"offset":1,"epoch":"none"},"limit":1}`), "error 112",
		fields{"message": "history refused", "user": "u", "channel": "chat:a", "code": 112.0}},
	{"RPC that nobody answers", nil, command(`"rpc":{"method":"add"}`), "error 108",
		fields{"message": "RPC refused", "user": "u", "method": "add", "code": 108.0, "key": "rpc.without_namespace.proxy_enabled"}},
	{"channel name too long", func(cfg *config.Config) { cfg.Channel.MaxLength = 3 }, command(`"subscribe":{"channel":"news"}`), "error 107",
		fields{"message": "channel refused: its name is too long", "user": "u", "channel": "news", "key": "channel.max_length", "reason": "the limit is 3"}},
	{"too many subscriptions", func(cfg *config.Config) {
		cfg.Client.ChannelLimit, cfg.Channel.WithoutNamespace.AllowSubscribeForClient = 1, true
	}, command(`"subscribe":{"channel":"b"}`, `"subscribe":{"channel":"a"}`), "error 106",
		fields{"message": "subscription refused: the client has too many", "user": "u", "channel": "b", "key": "client.channel_limit"}},
}

// protocolMistakes are commands and requests that break the rules of the protocol.
var protocolMistakes = []mistake{
	{"large message", nil, command(`"publish":{"channel":"a","data":"` + strings.Repeat("x", 64<<10) + `"}`), "disconnect 1009",
		fields{"message": "message refused: the connection ends", "user": "u", "key": "websocket.message_size_limit", "reason": "message too big"}},
	{"tags filter not allowed", chat(func(o *config.ChannelOptions) { o.AllowSubscribeForClient = true }),
		command(`"subscribe":{"channel":"chat:a","tf":{"key":"k","cmp":"eq","val":"v"}}`), "error 107",
		fields{"message": "command refused", "user": "u", "channel": "chat:a", "key": "channel.namespaces[chat].allow_tags_filter"}},
	{"subscribe twice", chat(func(o *config.ChannelOptions) { o.AllowSubscribeForClient = true }),
		command(`"subscribe":{"channel":"chat:a"}`, `"subscribe":{"channel":"chat:a"}`), "error 105",
		fields{"message": "command refused", "user": "u", "channel": "chat:a", "code": 105.0, "reason": "the client is already subscribed to the channel, or about to be"}},
	{"malformed JSON", nil, func(s *testServer) string {
		c := s.connect("u")
		c.Send(`{"id":9,"subscribe":{"channel":chat}}`)
		return c.Disconnected().Error()
	}, "disconnect 3501: bad request", fields{"message": "command refused", "user": "u", "code": 3501.0}},
	{"no connect command", nil, func(s *testServer) string {
		c := s.dial(nil)
		c.Send(`{"id":1,"subscribe":{"channel":"chat"}}`)
		return c.Disconnected().Error()
	}, "disconnect 3501: bad request", fields{"message": "command refused", "reason": "the first command is not a connect command with an id"}},
	{"message to the server", nil, func(s *testServer) string {
		c := s.connect("u")
		c.Send(`{"send":{"data":1}}`)
		return c.Disconnected().Error()
	}, "disconnect 3508: not available", fields{"message": "command refused", "user": "u", "code": 3508.0}},
	{"WebSocket endpoint in a browser", nil, request("GET /connection/websocket", ""),
		"400 Bad Request websocket: Connection holds no \"upgrade\": this path is for WebSocket clients, and proxies have to pass Connection and Upgrade on\n",
		fields{"message": "WebSocket handshake refused", "path": "/connection/websocket", "code": 400.0}},
}

// backendMistakes are those of backends, and requests to paths at which nothing is served.
var backendMistakes = []mistake{
	{"API without key", nil, request("POST /api/publish", `{"channel":"a","data":1}`),
		"401 Unauthorized Unauthorized: the request has no API key: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
		fields{"message": "API request refused", "path": "/api/publish", "code": 401.0, "key": "http_api.key"}},
	{"API with another key", nil, request("POST /api/publish", `{"channel":"a","data":1}`, "X-API-Key: other"),
		"401 Unauthorized Unauthorized: the request's API key is not http_api.key: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
		fields{"message": "API request refused", "reason": "the request's API key is not http_api.key", "key": "http_api.key"}},
	{"API without any key", func(cfg *config.Config) { cfg.HTTPAPI.Key = "" }, request("POST /api/publish", `{"channel":"a","data":1}`, "X-API-Key: other"),
		"401 Unauthorized Unauthorized: the server has no http_api.key, and without one no request is allowed: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
		fields{"message": "API request refused", "key": "http_api.key"}},
	{"API with malformed JSON", nil, request("POST /api/publish", `{"channel":"a",}`, withKey),
		"400 Bad Request Bad Request: the body is not the JSON object of a publish request: …", fields{"message": "API request refused", "path": "/api/publish", "code": 400.0}},
	{"API to an unknown namespace", nil, request("POST /api/publish", `{"channel":"chta:a","data":1}`, withKey),
		`200 OK {"error":{"code":102,"message":"unknown channel"}}`,
		fields{"message": "API command refused", "method": "publish", "channel": "chta:a", "code": 102.0, "key": "channel.namespaces"}},
	{"API without data", chat(nil), request("POST /api/publish", `{"channel":"chat:a"}`, withKey), `200 OK {"error":{"code":107,"message":"bad request"}}`,
		fields{"message": "API command refused", "method": "publish", "channel": "chat:a", "key": "channel.namespaces[chat].publication_data_format"}},
	{"API presence off", chat(nil), request("POST /api/presence", `{"channel":"chat:a"}`, withKey), `200 OK {"error":{"code":108,"message":"not available"}}`,
		fields{"message": "API command refused", "method": "presence", "channel": "chat:a", "key": "channel.namespaces[chat].presence"}},
	{"bytes for a JSON client", chat(func(o *config.ChannelOptions) { o.AllowSubscribeForClient = true }), func(s *testServer) string {
		c := s.connect("u")
		c.Subscribe("chat:a", "")
		request("POST /api/publish", `{"channel":"chat:a","b64data":"/w=="}`, withKey)(s)
		request("POST /api/publish", `{"channel":"chat:a","data":"what follows"}`, withKey)(s)
		return string(c.Pub().Data)
	}, `"what follows"`, fields{"message": "publication left out for clients with JSON: it is not JSON", "level": "warn",
		"user": "u", "channel": "chat:a", "key": "channel.namespaces[chat].publication_data_format"}},
	{"missing /api", nil, request("POST /publish", `{}`, withKey), "404 Not Found 404 page not found: the server API expects POST /api/publish\n",
		fields{"message": "request refused: nothing is served at its path", "path": "/publish", "key": "http_api.handler_prefix"}},
	{"WebSocket without path", nil, request("GET /", "", upgrade...), "404 Not Found 404 page not found: WebSocket clients connect to /connection/websocket\n",
		fields{"message": "request refused: nothing is served at its path", "path": "/", "key": "websocket.handler_prefix"}},
	{"no demo", nil, request("GET /", ""),
		"404 Not Found 404 page not found: this is Gyro; WebSocket clients connect to /connection/websocket, backends send POST /api/publish\n", nil},
}

// TestMistakes makes each mistake, and looks for the line that explains it, with a key that
// exists and a time with milliseconds. No line has a member twice.
func TestMistakes(t *testing.T) {
	t.Parallel()
	all := slices.Concat(admissionMistakes, credentialMistakes, channelMistakes, protocolMistakes, backendMistakes)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			s := startServerAt(t, "info", m.edit)
			want, begin := strings.CutSuffix(m.want, "…")
			if got := m.do(s); got != want && (!begin || !strings.HasPrefix(got, want)) {
				t.Errorf("got %q, want %q", got, m.want)
			}
			found := s.logs.Await(func(logs string) bool {
				for text := range strings.Lines(logs) {
					if has(decodeLine(t, text), m.line) {
						return true
					}
				}
				return m.line == nil
			})
			if !found {
				t.Errorf("no line has %v:\n%s", m.line, s.logs)
			}
			for text := range strings.Lines(s.logged()) {
				if key, ok := decodeLine(t, text)["key"].(string); ok {
					keytest.Check(t, key)
				}
			}
		})
	}
}

// TestNoMistakes: what the server's options allow is no error and no warning, although the
// library would tell its programmers.
func TestNoMistakes(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", func(cfg *config.Config) {
		chat(func(o *config.ChannelOptions) { o.AllowSubscribeForClient = true; o.ForceRecovery = true; historyOn(o) })(cfg)
		cfg.Channel.WithoutNamespace.AllowSubscribeForClient = true
		cfg.Channel.WithoutNamespace.AllowRecovery, cfg.Channel.WithoutNamespace.AllowPublishForClient = true, true
		cfg.Channel.WithoutNamespace.DeltaPublish = true
	})
	c := s.connect("u")
	c.Subscribe("chat:a", "")
	c.Subscribe("plain", `"recoverable":true`)
	for _, body := range []string{
		`{"channel":"chat:a","data":1,"skip_history":true,"delta":true,"version":7}`,
		`{"channel":"plain","data":2,"delta":true,"version":7,"version_epoch":"e"}`,
	} {
		if got := request("POST /api/publish", body, withKey)(s); got != `200 OK {"result":{}}` {
			t.Errorf("%s: %s", body, got)
		}
	}
	c.Do(`"publish":{"channel":"plain","data":3}`)
	if got := request("POST /api/subscribe", `{"channel":"other","user":"u","recover_since":{"offset":1,"epoch":"e"}}`, withKey)(s); got != `200 OK {"result":{}}` {
		t.Error(got)
	}
	for _, want := range []string{"1", "2", "3"} {
		if p := c.Pub(); string(p.Data) != want || p.Offset != 0 {
			t.Errorf("got %s with offset %d, want %s", p.Data, p.Offset, want)
		}
	}
	if log := s.logged(); strings.Contains(log, `"level":"warn"`) || strings.Contains(log, `"level":"error"`) {
		t.Error(log)
	}
}

// has tells whether a line has the members, and is of the level info unless they say
// otherwise.
func has(line, members map[string]any) bool {
	if members["level"] == nil && line["level"] != "info" {
		return false
	}
	for name, value := range members {
		if line[name] != value {
			return false
		}
	}
	return true
}

// decodeLine returns the members of a line, which it must have once each.
func decodeLine(t *testing.T, text string) map[string]any {
	t.Helper()
	line := make(map[string]any)
	d := json.NewDecoder(strings.NewReader(text))
	must(d.Token())
	for d.More() {
		name := must(d.Token()).(string)
		if _, twice := line[name]; twice {
			t.Errorf("%s comes twice: %s", name, text)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		line[name] = value
	}
	if at, _ := line["time"].(string); len(at) < 23 || at[19] != '.' {
		t.Errorf("no milliseconds: %s", text)
	}
	return line
}

// TestKeysOfRefusals: whatever the node names in a refusal, the server has a key for.
func TestKeysOfRefusals(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		key := keys[name]
		if ofNamespace(name) {
			key = "channel.without_namespace." + key
		}
		keytest.Check(t, key)
	}
	for _, err := range []error{web.ErrTooMany, web.ErrTooFast, clients.ErrNoToken, clients.ErrAnonymousToken, clients.ErrUnknownClient, web.ForeignOrigin(nil)} {
		key, _ := refusal.Explain(err)
		keytest.Check(t, key)
	}
}

// TestReloadTells: a reload says which changed keys need a restart.
func TestReloadTells(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", nil)
	next := *s.cfg
	if err := s.app.Reload(&next); err != nil {
		t.Fatal(err)
	}
	next.Client.Token.HMACSecretKey = "another-secret"
	if err := s.app.Reload(&next); err != nil {
		t.Fatal(err)
	}
	next.HTTPServer.Port, next.Client.Token.HMACSecretKey = 1, "a-third-secret"
	if err := s.app.Reload(&next); err != nil {
		t.Fatal(err)
	}
	s.awaitLog(
		`"level":"info","message":"configuration reloaded: nothing has changed"}`,
		`"level":"info","message":"configuration reloaded: nothing that changed needs a restart","applied":"client.token.hmac_secret_key"}`,
		`"level":"warn","message":"configuration reloaded, but some keys that changed need a restart","applied":"client.token.hmac_secret_key","keys":"http_server.port"}`,
	)
}

// TestManyRefusals: a client that causes 100,000 refusals leaves few lines, and costs no
// more than its commands.
func TestManyRefusals(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", nil)
	c := s.connect("u")
	const frames, each = 1000, 100
	for f := range uint32(frames) {
		var frame strings.Builder
		for i := range uint32(each) {
			fmt.Fprintf(&frame, `{"id":%d,"publish":{"channel":"a","data":1}}`+"\n", 1000+f*each+i)
		}
		c.Send(frame.String())
		for i := range uint32(each) {
			if r := c.Await(1000 + f*each + i); r.Error == nil || r.Error.Code != 103 {
				t.Fatalf("%+v", r)
			}
		}
	}
	s.stop()
	if n := strings.Count(s.logs.String(), "\n"); n > 100 {
		t.Errorf("%d lines for %d refusals", n, frames*each)
	}
}

// TestGuideBeforePage: a WebSocket client that asks for a page is told of its path, others get
// the page.
func TestGuideBeforePage(t *testing.T) {
	g := web.Guide{Refusals: refusal.Reporter{Log: slog.New(slog.DiscardHandler)}, WebSocket: "/ws"}
	page := g.Before(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") }))
	for upgrade, want := range map[string]string{"": "the page", "WebSocket": "404 page not found: WebSocket clients connect to /ws\n"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Upgrade", upgrade)
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, r); w.Body.String() != want {
			t.Errorf("upgrade %q: %s", upgrade, w.Body)
		}
	}
}
