package app

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// badFrames are answered by the end of the connection. The text is sent as one
// data frame, by a client that has connected or not.
var badFrames = []struct {
	name      string
	protobuf  bool
	connected bool
	frame     string
	want      uint32
}{
	{name: "cut short", frame: `{"id":1,"connect":{`, want: 3501},
	{name: "no JSON", frame: `hello`, want: 3501},
	{name: "array", frame: `[]`, want: 3501},
	{name: "null", frame: `null`, want: 3501},
	{name: "trailing comma", frame: `{"id":1,"connect":{},}`, want: 3501},
	{name: "ID is a string", frame: `{"id":"1","connect":{}}`, want: 3501},
	{name: "ID is negative", frame: `{"id":-1,"connect":{}}`, want: 3501},
	{name: "ID is too large", frame: `{"id":4294967296,"connect":{}}`, want: 3501},
	{name: "token is a number", frame: `{"id":1,"connect":{"token":1}}`, want: 3501},
	{name: "empty frame", frame: ``, want: 3501},
	{name: "deep", frame: `{"id":1,"connect":{"data":` + strings.Repeat("[", 30000), want: 3501},
	{name: "not UTF-8", frame: "{\"id\":1,\"connect\":{\"name\":\"\xff\"}}", want: 1007},
	{name: "too large", frame: `{"id":1,"connect":{"name":"` + strings.Repeat("a", 64<<10) + `"}}`, want: 1009},
	{name: "no ID", frame: `{"connect":{}}`, want: 3501},
	{name: "before connect", frame: `{"id":1,"subscribe":{"channel":"news"}}`, want: 3501},
	{name: "pong before connect", frame: `{}`, want: 3501},
	{name: "connect again", connected: true, frame: `{"id":2,"connect":{}}`, want: 3501},
	{name: "unknown command", connected: true, frame: `{"id":2,"subscribes":{"channel":"news"}}`, want: 3501},
	{name: "ping command", connected: true, frame: `{"id":2,"ping":{}}`, want: 3501},
	{name: "unasked pong", connected: true, frame: `{}`, want: 3501},
	{name: "second command is malformed", connected: true, frame: `{"id":2,"presence":{"channel":"news"}}` + "\n{", want: 3501},
	{name: "no channel", connected: true, frame: `{"id":2,"subscribe":{}}`, want: 3501},
	{name: "channel is a number", connected: true, frame: `{"id":2,"subscribe":{"channel":1}}`, want: 3501},

	{name: "Protobuf cut short", protobuf: true, frame: "\x05\x08\x01", want: 3501},
	{name: "Protobuf with an endless length", protobuf: true, frame: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", want: 3501},
	{name: "Protobuf with a huge length", protobuf: true, frame: "\xff\xff\xff\xff\x0f\x08\x01", want: 3501},
	{name: "Protobuf with a wrong wire type", protobuf: true, frame: "\x02\x0f\x01", want: 3501},
	{name: "JSON as Protobuf", protobuf: true, frame: `{"id":1,"connect":{}}`, want: 3501},
	{name: "Protobuf with a name that is not UTF-8", protobuf: true, frame: "\x07\x08\x01\x22\x03\x1a\x01\xff", want: 3501},
	{name: "Protobuf with an unknown command", protobuf: true, connected: true, frame: "\x05\x08\x02\xfa\x01\x00", want: 3501},
	{name: "Protobuf without a command", protobuf: true, connected: true, frame: "\x02\x08\x02", want: 3501},
	{name: "Protobuf before connect", protobuf: true, frame: "\x07\x08\x01\x2a\x03\x0a\x01a", want: 3501},
	{name: "Protobuf with a channel that is not UTF-8", protobuf: true, connected: true, frame: "\x07\x08\x02\x2a\x03\x0a\x01\xff", want: 3501},
	{name: "Protobuf too large", protobuf: true, frame: strings.Repeat("\x00", 64<<10+1), want: 1009},
}

// badBytes break the framing of WebSocket; the mask is zero.
var badBytes = []struct {
	name  string
	bytes string
	want  uint32
}{
	{"not masked", "\x81\x02{}", 1002},
	{"reserved bit", "\xc1\x82\x00\x00\x00\x00{}", 1002},
	{"reserved opcode", "\x83\x80\x00\x00\x00\x00", 1002},
	{"continues nothing", "\x80\x80\x00\x00\x00\x00", 1002},
	{"fragmented ping", "\x09\x80\x00\x00\x00\x00", 1002},
	{"long ping", "\x89\xfe\x00\x7e\x00\x00\x00\x00", 1002},
	{"length beyond 63 bits", "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1002},
	{"huge length", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", 1009},
	{"not UTF-8 over fragments", "\x01\x81\x00\x00\x00\x00\xe2\x80\x81\x00\x00\x00\x00\x28", 1007},
	{"fragments that are too large together", fragment("\x01", 40000) + fragment("\x80", 40000), 1009},
	{"close with half a code", "\x88\x81\x00\x00\x00\x00\x03", 1002},
}

// fragment is a frame of n letters, n < 64 KB.
func fragment(first string, n uint16) string {
	return first + "\xfe" + string(binary.BigEndian.AppendUint16(nil, n)) + "\x00\x00\x00\x00" + strings.Repeat("a", int(n))
}

// beforeConnect are commands that nobody may send first.
var beforeConnect = []string{
	`"subscribe":{"channel":"news"}`, `"unsubscribe":{"channel":"news"}`, `"publish":{"channel":"news","data":1}`,
	`"presence":{"channel":"news"}`, `"presence_stats":{"channel":"news"}`, `"history":{"channel":"news"}`, `"rpc":{"method":"x"}`,
	`"refresh":{"token":"x"}`, `"sub_refresh":{"channel":"news","token":"x"}`,
}

// badCommands leave the connection open unless they say otherwise. They come from
// a user who may publish into mine:a after subscribing, and nothing else.
var badCommands = []struct {
	name, command, want string
}{
	{"channel too long", `"subscribe":{"channel":"` + strings.Repeat("a", 256) + `"}`, "error 107"},
	{"channel of 64 KB", `"publish":{"channel":"` + strings.Repeat("a", 65000) + `","data":1}`, "error 107"},
	{"unknown namespace", `"subscribe":{"channel":"nothing:a"}`, "error 102"},
	{"may not subscribe", `"subscribe":{"channel":"news"}`, "error 103"},
	{"may not publish", `"publish":{"channel":"news","data":"spam"}`, "error 103"},
	{"may not publish unsubscribed", `"publish":{"channel":"mine:a","data":"spam"}`, "error 103"},
	{"no presence", `"presence":{"channel":"news"}`, "error 108"},
	{"no history", `"history":{"channel":"news","limit":-1}`, "error 108"},
	{"private", `"subscribe":{"channel":"$news"}`, "error 103"},
	{"no token", `"subscribe":{"channel":"$news","token":"x"}`, "error 103"},
	{"no RPC", `"rpc":{"method":"x"}`, "error 108"},
	{"unsubscribe of nothing", `"unsubscribe":{"channel":"news"}`, "ok"},
	{"sub refresh of nothing", `"sub_refresh":{"channel":"news","token":"x"}`, "error 103"},
	{"filter that is not allowed", `"subscribe":{"channel":"mine:a","tf":{"op":"x"}}`, "error 107"},
	{"one too many", `"subscribe":{"channel":"mine:3"}`, "error 106"},
	{"refresh without token", `"refresh":{}`, "disconnect 3501"},
	{"refresh by nonsense", `"refresh":{"token":"x"}`, "disconnect 3500"},
	{"message", `"send":{"data":1}`, "disconnect 3508"},
}

// bystander is a client that must not notice anything.
type bystander struct {
	s       *testServer
	clients []*wstest.Client
	n       int
}

func (b *bystander) check(t *testing.T) {
	t.Helper()
	b.n++
	want := fmt.Sprintf(`{"n":%d}`, b.n)
	b.s.api("publish", `{"channel":"news","data":`+want+`}`)
	for _, c := range b.clients {
		if p := c.Push(); p.Pub == nil || string(p.Pub.Data) != want {
			t.Errorf("the bystander got %+v, want %s", p, want)
		}
	}
}

// TestBadInput: each bad input gets its code, and clients beside it nothing but
// their publications.
func TestBadInput(t *testing.T) {
	t.Parallel()
	onBothDrivers(t, func(cfg *config.Config) {
		cfg.Client.PingInterval, cfg.Client.PongTimeout = 2*time.Second, 1500*time.Millisecond
		cfg.Client.StaleCloseDelay = 2 * time.Second
		cfg.Client.ChannelLimit = 2
		addNamespace(cfg, "mine", func(o *config.ChannelOptions) {
			o.AllowSubscribeForClient, o.AllowPublishForSubscriber = true, true
		})
	}, testBadInput)
}

func testBadInput(t *testing.T, s *testServer) {
	stale, silent := s.dial(nil), s.connect("silent")
	silent.Mute()
	b := &bystander{s: s}
	for _, query := range []string{"", "?cf_protocol=protobuf"} {
		c := wstest.Dial(t, s.url("/connection/websocket"+query), nil)
		c.Connect(s.tokenField(jwt.MapClaims{"sub": "bystander", "channels": []string{"news"}}))
		b.clients = append(b.clients, c)
	}
	t.Run("frames", func(t *testing.T) { testBadFrames(t, s, b) })
	t.Run("before connect", func(t *testing.T) { testBeforeConnect(t, s, b) })
	t.Run("bytes", func(t *testing.T) { testBadBytes(t, s, b) })
	t.Run("commands", func(t *testing.T) { testBadCommands(t, s, b) })
	t.Run("tokens", func(t *testing.T) { testBadTokens(t, s, b) })
	t.Run("tokens of later commands", func(t *testing.T) { testBadLaterTokens(t, s, b) })
	t.Run("too many subscriptions", func(t *testing.T) { testTooManySubscriptions(t, s, b) })
	t.Run("HTTP", func(t *testing.T) { testBadHTTP(t, s, b) })
	if d := stale.Disconnected(); d != protocol.DisconnectStale {
		t.Errorf("stale client: %v", d)
	}
	if d := silent.Disconnected(); d != protocol.DisconnectNoPong {
		t.Errorf("silent client: %v", d)
	}
	b.check(t)
}

func testBadFrames(t *testing.T, s *testServer, b *bystander) {
	for _, tt := range badFrames {
		query := ""
		if tt.protobuf {
			query = "?cf_protocol=protobuf"
		}
		c := wstest.Dial(t, s.url("/connection/websocket"+query), nil)
		if tt.connected {
			c.Connect(s.tokenField(jwt.MapClaims{"sub": "bad"}))
		}
		c.Raw([]byte(tt.frame))
		if d := c.Disconnected(); d.Code != tt.want {
			t.Errorf("%s: %v, want %d", tt.name, d, tt.want)
		}
		b.check(t)
	}
}

func testBeforeConnect(t *testing.T, s *testServer, b *bystander) {
	for _, command := range beforeConnect {
		if got, _ := s.dial(nil).Outcome(command); got != "disconnect 3501" {
			t.Errorf("%s: %s", command, got)
		}
		b.check(t)
	}
}

func testBadBytes(t *testing.T, s *testServer, b *bystander) {
	for _, tt := range badBytes {
		c := s.connect("bad")
		c.Bytes([]byte(tt.bytes))
		if d := c.Disconnected(); d.Code != tt.want {
			t.Errorf("%s: %v, want %d", tt.name, d, tt.want)
		}
		b.check(t)
	}
}

func testBadCommands(t *testing.T, s *testServer, b *bystander) {
	for _, tt := range badCommands {
		c := s.connect("bad")
		if tt.want == "error 106" {
			c.Subscribe("mine:1", "")
			c.Subscribe("mine:2", "")
		}
		got, _ := c.Outcome(tt.command)
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if !strings.HasPrefix(tt.want, "disconnect") && tt.want != "error 106" {
			c.Subscribe("mine:a", "") // goes on as if nothing had been
		}
		b.check(t)
	}
}

func testBadTokens(t *testing.T, s *testServer, b *bystander) {
	claims := jwt.MapClaims{"sub": "bystander"}
	good := s.token(claims)
	for name, token := range map[string]string{
		"nonsense":     "x",
		"two parts":    good[:strings.LastIndex(good, ".")],
		"no signature": good[:strings.LastIndex(good, ".")+1],
		"four parts":   good + ".x",
		"line break":   good[:10] + `\n` + good[10:],
		"huge":         "eyJ" + strings.Repeat("a", 60000),
		"alg none":     s.sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims),
		"wrong secret": s.sign(jwt.SigningMethodHS256, []byte("x"), claims),
		"no object":    "eyJhbGciOiJIUzI1NiJ9.MQ." + "x",
	} {
		if got, _ := s.dial(nil).Outcome(`"connect":{"token":"` + token + `"}`); got != "disconnect 3500" {
			t.Errorf("%s: %s", name, got)
		}
		b.check(t)
	}
	for name, claims := range map[string]jwt.MapClaims{
		"expired": {"sub": "bystander", "exp": unix(-time.Second)}, "not yet valid": {"sub": "bystander", "nbf": unix(time.Hour)},
	} {
		if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(claims) + `}`); got != "error 109" {
			t.Errorf("%s: %s", name, got)
		}
		b.check(t)
	}
}

// testBadLaterTokens sends tokens that others signed, or nobody, wherever a
// connected client may send one.
func testBadLaterTokens(t *testing.T, s *testServer, b *bystander) {
	for _, tt := range []struct {
		name                           string
		method                         jwt.SigningMethod
		key                            any
		expire                         time.Duration
		subscribe, refresh, subRefresh string
	}{
		{"alg none", jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, time.Hour, "error 103", "disconnect 3500", "disconnect 3500"},
		{"wrong secret", jwt.SigningMethodHS256, []byte("x"), time.Hour, "error 103", "disconnect 3500", "disconnect 3500"},
		{"empty secret", jwt.SigningMethodHS256, []byte{}, time.Hour, "error 103", "disconnect 3500", "disconnect 3500"},
		{"expired", jwt.SigningMethodHS256, []byte(tokenSecret), -time.Hour, "error 109", "disconnect 3005", "error 109"},
	} {
		connection := s.sign(tt.method, tt.key, jwt.MapClaims{"sub": "bad", "exp": unix(tt.expire)})
		subscription := s.sign(tt.method, tt.key, jwt.MapClaims{"sub": "bad", "exp": unix(tt.expire), "channel": "$a"})
		for command, want := range map[string]string{
			`"subscribe":{"channel":"$a","token":"` + subscription + `"}`:     tt.subscribe,
			`"refresh":{"token":"` + connection + `"}`:                        tt.refresh,
			`"sub_refresh":{"channel":"$b","token":"` + subscription + `"}`:   "error 103", // is not subscribed
			`"sub_refresh":{"channel":"mine","token":"` + subscription + `"}`: tt.subRefresh,
		} {
			c := s.connect("bad")
			c.Subscribe("mine", s.tokenField(jwt.MapClaims{"sub": "bad", "channel": "mine", "exp": unix(time.Hour)}))
			if got, _ := c.Outcome(command); got != want {
				t.Errorf("%s, %.30s: %s, want %s", tt.name, command, got, want)
			}
			b.check(t)
		}
	}
}

// testTooManySubscriptions: by the server's doing it ends the connection.
func testTooManySubscriptions(t *testing.T, s *testServer, b *bystander) {
	if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"channels": []string{"a", "b", "c"}}) + `}`); got != "disconnect 3505" {
		t.Errorf("by token: %s", got)
	}
	b.check(t)
	c := s.connect("full")
	for _, ch := range []string{"a", "b", "c"} {
		s.api("subscribe", `{"user":"full","channel":"`+ch+`"}`)
	}
	if d := c.Disconnected(); d != protocol.DisconnectChannelLimit {
		t.Errorf("by API: %v", d)
	}
	b.check(t)
}

// badRequests of HTTP, to the API with its key and to WebSocket.
var badRequests = []struct {
	name, method, path, body string
	edit                     func(*http.Request)
	want                     int
}{
	{"malformed", "POST", "/api/publish", `{"channel":`, nil, 400},
	{"wrong type", "POST", "/api/publish", `{"channel":1,"data":{}}`, nil, 400},
	{"no JSON", "POST", "/api/publish", "\xff", nil, 400},
	{"legacy, malformed", "POST", "/api", `{"method":"publish","params":`, nil, 400},
	{"deep", "POST", "/api/publish", `{"channel":"news","data":` + strings.Repeat("[", 100000), nil, 400},
	{"unknown method", "POST", "/api/nothing", `{}`, nil, 404},
	{"GET", "GET", "/api/publish", ``, nil, 405},
	{"wrong key", "POST", "/api/publish", `{"channel":"news","data":1}`, func(r *http.Request) { r.Header.Set("X-API-Key", "wrong") }, 401},
	{"no key", "POST", "/api/publish", `{"channel":"news","data":1}`, func(r *http.Request) { r.Header.Del("X-API-Key") }, 401},
	{"large headers", "POST", "/api/publish", `{}`, func(r *http.Request) { r.Header.Set("X-A", strings.Repeat("a", 128<<10)) }, 431},
	{"no upgrade", "GET", "/connection/websocket", ``, nil, 400},
	{"POST to WebSocket", "POST", "/connection/websocket", ``, nil, 405},
	{"old version", "GET", "/connection/websocket", ``, func(r *http.Request) {
		r.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"8"},
			"Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	}, 400},
}

func testBadHTTP(t *testing.T, s *testServer, b *bystander) {
	for _, tt := range badRequests {
		req := must(http.NewRequest(tt.method, s.url(tt.path), bytes.NewReader([]byte(tt.body))))
		req.Header.Set("X-API-Key", apiKey)
		if tt.edit != nil {
			tt.edit(req)
		}
		req.Close = true
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, res.StatusCode, tt.want)
		}
		b.check(t)
	}
	// The length alone decides: nothing of such a body is read.
	conn := must(net.Dial("tcp", s.app.Addr("external")))
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/publish HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n", apiKey, 65<<20)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %s", res.Status)
	}
	b.check(t)
}
