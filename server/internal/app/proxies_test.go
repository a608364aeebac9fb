package app

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

// proxyMessage is a request or a response of a proxy.
type proxyMessage interface {
	proxy.Request
	proxy.Response
}

// proxyMethods are the events that backends of tests answer: the path of an HTTP backend, and the
// method of a gRPC one.
var proxyMethods = map[string]func() (req, res proxyMessage){
	"Connect":    func() (_, _ proxyMessage) { return new(message.ConnectRequest), new(message.ConnectResponse) },
	"Refresh":    func() (_, _ proxyMessage) { return new(message.RefreshRequest), new(message.RefreshResponse) },
	"Subscribe":  func() (_, _ proxyMessage) { return new(message.SubscribeRequest), new(message.SubscribeResponse) },
	"SubRefresh": func() (_, _ proxyMessage) { return new(message.SubRefreshRequest), new(message.SubRefreshResponse) },
	"Publish":    func() (_, _ proxyMessage) { return new(message.PublishRequest), new(message.PublishResponse) },
	"RPC":        func() (_, _ proxyMessage) { return new(message.RPCRequest), new(message.RPCResponse) },
	"MapPublish": func() (_, _ proxyMessage) { return new(message.MapPublishRequest), new(message.MapPublishResponse) },
	"MapRemove":  func() (_, _ proxyMessage) { return new(message.MapRemoveRequest), new(message.MapRemoveResponse) },
	"SharedPollRefresh": func() (_, _ proxyMessage) {
		return new(message.SharedPollRefreshRequest), new(message.SharedPollRefreshResponse)
	},
	"NotifyCacheEmpty": func() (_, _ proxyMessage) {
		return new(message.NotifyCacheEmptyRequest), new(message.NotifyCacheEmptyResponse)
	},
}

// testBackend is a backend whose answers are text, in JSON, over either carrier. An answer that is not
// JSON is a failure.
type testBackend struct {
	t        *testing.T
	endpoint func(event string) string

	mu      sync.Mutex
	answers map[string]func() string
	asked   map[string][]string // requests in JSON
	headers http.Header         // of the latest request
}

func (b *testBackend) answer(event, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[event] = func() string { return text }
}

// answerExpiring lets an event have an answer that expires soon: it has a verb for that moment.
func (b *testBackend) answerExpiring(event, format string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[event] = func() string { return fmt.Sprintf(format, soon()) }
}

// last returns the latest request about an event.
func (b *testBackend) last(event string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.asked[event]); n > 0 {
		return b.asked[event][n-1]
	}
	return ""
}

func (b *testBackend) serve(event, request string, h http.Header) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[event] = append(b.asked[event], request)
	b.headers = h
	if f := b.answers[event]; f != nil {
		return f()
	}
	return `{}`
}

// carriers run a test with a backend over HTTP and one over gRPC.
func carriers(t *testing.T, f func(t *testing.T, b *testBackend)) {
	for name, open := range map[string]func(*testBackend){"http": (*testBackend).overHTTP, "grpc": (*testBackend).overGRPC} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &testBackend{t: t, answers: map[string]func() string{}, asked: map[string][]string{}}
			open(b)
			f(t, b)
		})
	}
}

func (b *testBackend) overHTTP() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer := b.serve(r.URL.Path[1:], string(body), r.Header)
		if !json.Valid([]byte(answer)) {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, answer)
	}))
	b.t.Cleanup(s.Close)
	b.endpoint = func(event string) string { return s.URL + "/" + event }
}

// throughCodec hands the bytes of messages through.
type throughCodec struct{}

func (throughCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (throughCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (throughCodec) Name() string { return "proto" }

func (b *testBackend) overGRPC() {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	s := grpc.NewServer(grpc.ForceServerCodecV2(throughCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		event := method[strings.LastIndexByte(method, '/')+1:]
		req, res := proxyMethods[event]()
		var data []byte
		if err := stream.RecvMsg(&data); err != nil {
			return err
		}
		if err := req.UnmarshalProto(data); err != nil {
			return err
		}
		md, _ := metadata.FromIncomingContext(stream.Context())
		h := make(http.Header)
		for name, values := range md {
			for _, v := range values {
				h.Add(name, v)
			}
		}
		if err := res.UnmarshalJSON([]byte(b.serve(event, string(must(req.AppendJSON(nil))), h))); err != nil {
			return err
		}
		data = res.AppendProto(nil)
		return stream.SendMsg(&data)
	}))
	go func() { _ = s.Serve(l) }()
	b.t.Cleanup(s.Stop)
	b.endpoint = func(string) string { return "grpc://" + l.Addr().String() }
}

// proxied configures all proxies of b; namespace open is without them.
func proxied(b *testBackend, edit func(*config.Config)) func(*config.Config) {
	return func(cfg *config.Config) {
		at := func(x *config.Proxy, event string) {
			x.Endpoint, x.Timeout, x.IncludeConnMeta = b.endpoint(event), time.Minute, true
		}
		cfg.Client.Proxy.Connect.Enabled = true
		at(&cfg.Client.Proxy.Connect.Proxy, "Connect")
		at(&cfg.Client.Proxy.Refresh.Proxy, "Refresh")
		at(&cfg.Channel.Proxy.Subscribe, "Subscribe")
		at(&cfg.Channel.Proxy.Publish, "Publish")
		at(&cfg.Channel.Proxy.SubRefresh, "SubRefresh")
		at(&cfg.Channel.Proxy.MapPublish, "MapPublish")
		at(&cfg.Channel.Proxy.MapRemove, "MapRemove")
		at(&cfg.Channel.Proxy.CacheEmpty, "NotifyCacheEmpty")
		at(&cfg.RPC.Proxy, "RPC")
		cfg.RPC.WithoutNamespace.ProxyEnabled = true
		o := &cfg.Channel.WithoutNamespace
		o.SubscribeProxyEnabled, o.PublishProxyEnabled = true, true
		o.Presence, o.HistorySize, o.HistoryTTL = true, 10, time.Minute
		o.AllowPresenceForSubscriber, o.AllowHistoryForSubscriber = true, true
		if edit != nil {
			edit(cfg)
		}
	}
}

// startProxied starts a server whose proxies ask b.
func startProxied(t *testing.T, b *testBackend, edit func(*config.Config)) *testServer {
	s := startServer(t, proxied(b, edit))
	s.expected = "backend" // that gives no answer, or a bad one
	return s
}

// describeSubs names the server-side subscriptions, with their data.
func describeSubs(subs map[string]*protocol.SubscribeResult) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(subs)) {
		if data := subs[name].Data; len(data) > 0 {
			name += "=" + string(data)
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// without removes the ID of the client, which is random.
func without(request string) string {
	if _, rest, ok := strings.Cut(request, `","transport"`); ok {
		return `{"transport"` + rest
	}
	return request
}

// soon is when expires what a test waits for to expire. On a slow machine that may be over when it comes to the server,
// which refuses it: then the test tries again.
func soon() int64 { return unix(2 * time.Second) }

// connectExpiring connects with a token that expires soon.
func (s *testServer) connectExpiring(header http.Header, claims jwt.MapClaims, fields string) (*wstest.Client, *protocol.ConnectResult) {
	s.t.Helper()
	return s.outlive(header, "error 109", func() string {
		claims["exp"] = soon()
		return s.tokenField(claims) + fields
	})
}

// outlive connects, and does so again if the token or the backend's answer expired before the connection was made.
func (s *testServer) outlive(header http.Header, expired string, fields func() string) (*wstest.Client, *protocol.ConnectResult) {
	s.t.Helper()
	for {
		c := s.dial(header)
		got, r := c.Outcome(`"connect":{` + fields() + `}`)
		if got == "ok" {
			return c, r.Connect
		}
		if got != expired {
			s.t.Fatalf("connect: %s", got)
		}
	}
}

// subscribeExpiring subscribes to a channel. The backend lets the subscription expire soon.
func (s *testServer) subscribeExpiring(c *wstest.Client, ch string) *protocol.SubscribeResult {
	s.t.Helper()
	for {
		got, r := c.Outcome(fmt.Sprintf(`"subscribe":{"channel":%q}`, ch))
		if got == "ok" {
			return r.Subscribe
		}
		if got != "error 110" {
			s.t.Fatalf("subscribe to %s: %s", ch, got)
		}
	}
}

func TestConnectProxy(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			addNamespace(cfg, "cache", func(o *config.ChannelOptions) {
				o.HistorySize, o.HistoryTTL, o.ForceRecovery, o.ForceRecoveryMode = 1, time.Minute, true, "cache"
			})
		})
		for _, tt := range []struct{ answer, want string }{
			{`{"result":{"user":"42","info":{"n":1},"data":{"motd":"hi"},"channels":["news"]}}`, `{"motd":"hi"} news`},
			{`{"result":{"user":"42","b64data":"eyJiIjoxfQ==","data":{"a":1}}}`, `{"b":1} `},
			{`{"result":{}}`, ` `},
			{`{"result":{"subs":{"cache:a":{"data":{"unread":3},"cache_recover":true},"b":null}}}`, ` b cache:a={"unread":3}`},
			{`{}`, "disconnect 3501"},
			{`{"error":{"code":1000,"message":"no"},"result":{}}`, "error 1000"},
			{`{"error":{"code":1000},"disconnect":{"code":4500,"reason":"banned"}}`, "disconnect 4500"},
			{`{"result":{"channels":["no:a"]}}`, "error 102"},
			{`{"result":{"expire_at":1}}`, "error 110"},
			{`{"result":{"b64data":"!"}}`, "error 100"},
			{`<html>`, "error 100"},
		} {
			b.answer("Connect", tt.answer)
			c := s.dial(nil)
			got, reply := c.Outcome(`"connect":{"data":{"device":"tablet"},"name":"js","version":"1","subs":{"x":{}}}`)
			if got == "ok" {
				got = string(reply.Connect.Data) + " " + describeSubs(reply.Connect.Subs)
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.answer, got, tt.want)
			}
		}
		want := `{"transport":"websocket","protocol":"json","encoding":"json","data":{"device":"tablet"},"name":"js","version":"1","channels":["x"]}`
		if got := without(b.last("Connect")); got != want {
			t.Errorf("request %s", got)
		}
	})
}

// A client with a token is never the backend's business.
func TestConnectProxyToken(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		s.connect("u")
		if got, _ := s.dial(nil).Outcome(`"connect":{"token":"x"}`); got != "disconnect 3500" || b.last("Connect") != "" {
			t.Errorf("%s, backend asked: %s", got, b.last("Connect"))
		}
	})
}

// Where it is allowed, a client that the backend does not know goes on as anybody.
func TestConnectProxyUnknown(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) { cfg.Client.AllowAnonymousConnect = true })
		s.dial(nil).Connect("")
		b.answer("Connect", `{"error":{"code":1000,"message":"no"}}`)
		if got, _ := s.dial(nil).Outcome(`"connect":{}`); got != "error 1000" {
			t.Error(got)
		}
	})
}

// proxyTests are outcomes of commands that the backend decides.
var proxyTests = []struct {
	name, event, answer, command string
	want, request                string
}{
	{"subscribe", "Subscribe", `{}`, `"subscribe":{"channel":"a","data":{"pin":1},"recoverable":true}`, `ok`,
		`{"transport":"websocket","protocol":"json","encoding":"json","user":"42","channel":"a","meta":{"t":1},"data":{"pin":1}}`},
	{"with options", "Subscribe", `{"result":{"data":{"x":1},"override":{"force_recovery":{"value":true}}}}`,
		`"subscribe":{"channel":"a"}`, `ok {"x":1} recoverable`, ``},
	{"expires", "Subscribe", `{"result":{"expire_at":9999999999}}`, `"subscribe":{"channel":"a"}`, `ok expires`, ``},
	{"expired", "Subscribe", `{"result":{"expire_at":1}}`, `"subscribe":{"channel":"a"}`, `error 110`, ``},
	{"no access", "Subscribe", `{"error":{"code":403,"message":"no access"}}`, `"subscribe":{"channel":"a"}`, `error 403`, ``},
	{"banned", "Subscribe", `{"disconnect":{"code":4500,"reason":"banned"}}`, `"subscribe":{"channel":"a"}`, `disconnect 4500`, ``},
	{"bad base64", "Subscribe", `{"result":{"b64data":"!"}}`, `"subscribe":{"channel":"a"}`, `error 100`, ``},
	{"no answer", "Subscribe", `<html>`, `"subscribe":{"channel":"a"}`, `error 100`, ``},

	{"publish", "Publish", `{"result":{}}`, `"publish":{"channel":"a","data":{"n":1}}`, `ok`,
		`{"transport":"websocket","protocol":"json","encoding":"json","user":"42","channel":"a","data":{"n":1},"meta":{"t":1}}`},
	{"forbidden", "Publish", `{"error":{"code":403,"message":"no"}}`, `"publish":{"channel":"a","data":{}}`, `error 403`, ``},
	{"no data", "Publish", `{}`, `"publish":{"channel":"a"}`, `error 107`, ``},
	{"publish fails", "Publish", `<html>`, `"publish":{"channel":"a","data":{}}`, `error 100`, ``},

	{"call", "RPC", `{"result":{"data":{"id":7}}}`, `"rpc":{"method":"get","data":[1]}`, `ok {"id":7}`,
		`{"transport":"websocket","protocol":"json","encoding":"json","user":"42","method":"get","data":[1],"meta":{"t":1}}`},
	{"base64", "RPC", `{"result":{"data":1,"b64data":"Mg=="}}`, `"rpc":{"method":"get"}`, `ok 2`, ``},
	{"empty", "RPC", `{}`, `"rpc":{"method":"get"}`, `ok`, ``},
	{"temporary", "RPC", `{"error":{"code":1000,"message":"busy","temporary":true}}`, `"rpc":{}`, `error 1000 temporary`, ``},
	{"unknown namespace", "RPC", `{}`, `"rpc":{"method":"no:get"}`, `error 104`, ``},
}

func TestProxies(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		b.answer("Connect", `{"result":{"user":"42","meta":{"t":1}}}`)
		for _, tt := range proxyTests {
			b.answer(tt.event, tt.answer)
			c := s.dial(nil)
			c.Connect("")
			got, reply := c.Outcome(tt.command)
			if reply == nil {
				reply = new(protocol.Reply)
			}
			if sub := reply.Subscribe; sub != nil && got == "ok" {
				got = strings.TrimRight(fmt.Sprintf("ok %s", sub.Data), " ")
				if sub.Recoverable {
					got += " recoverable"
				}
				if sub.Expires {
					got += " expires"
				}
			}
			if reply.RPC != nil && got == "ok" {
				got = strings.TrimRight(fmt.Sprintf("ok %s", reply.RPC.Data), " ")
			}
			if reply.Error != nil && reply.Error.Code != 100 && reply.Error.Temporary {
				got += " temporary"
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
			if tt.request != "" && without(b.last(tt.event)) != tt.request {
				t.Errorf("%s: request %s, want %s", tt.name, without(b.last(tt.event)), tt.request)
			}
		}
	})
}

// What the backend makes of a publication.
func TestPublishProxyResult(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		b.answer("Connect", `{"result":{"user":"42"}}`)
		c := s.dial(nil)
		c.Connect("")
		c.Subscribe("a", "")
		for _, tt := range []struct{ answer, want string }{
			{`{"result":{"data":{"changed":1},"b64data":"MQ==","tags":{"lang":"en"}}}`, `{"changed":1} map[lang:en] 1`},
			{`{"result":{"data":null}}`, `null map[] 2`},
			{`{"result":{"b64data":"MQ==","skip_history":true}}`, `1 map[] 0`},
		} {
			b.answer("Publish", tt.answer)
			c.Do(`"publish":{"channel":"a","data":{}}`)
			pub := c.Pub()
			if got := fmt.Sprintf("%s %v %d", pub.Data, pub.Tags, pub.Offset); got != tt.want || pub.Info.User != "42" {
				t.Errorf("%s: %s, want %s", tt.answer, got, tt.want)
			}
		}
		b.answer("Publish", `{"result":{"idempotency_key":"k"}}`)
		for range 2 {
			c.Do(`"publish":{"channel":"a","data":{}}`)
		}
		if pub := c.Pub(); pub.Offset != 3 {
			t.Error(pub)
		}
		if top := s.api("history", `{"channel":"a"}`); !strings.Contains(top, `"offset":3`) {
			t.Error(top)
		}
	})
}

// What the backend makes of changes of a map.
func TestMapProxies(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			addNamespace(cfg, "map", func(o *config.ChannelOptions) {
				mapOn(o)
				o.DeltaPublish, o.AllowedDeltaTypes = true, []string{"fossil"}
				o.Map.PublishProxyEnabled, o.Map.RemoveProxyEnabled = true, true
			})
		})
		b.answer("Connect", `{"result":{"user":"42","info":{"n":1},"meta":{"t":1}}}`)
		c := s.dial(nil)
		c.Connect("")
		c.Do(`"subscribe":{"channel":"map:a","type":1}`)
		set, remove := `"publish":{"channel":"map:a","type":1,"key":"k","data":{"x":1}}`, `"publish":{"channel":"map:a","type":1,"key":"k","removed":true}`
		for _, tt := range []struct{ event, answer, command, want string }{
			{"MapPublish", `{}`, set, `k {"x":1} map[] false`},
			{"MapPublish", `{"result":{"key":"other","data":null,"b64data":"MQ==","tags":{"a":"b"}}}`, set, `other null map[a:b] false`},
			{"MapPublish", `{"result":{"b64data":"MQ=="}}`, set, `k 1 map[] false`},
			{"MapPublish", `{"result":{"key_mode":"if_new"}}`, set, ``},
			{"MapPublish", `{"error":{"code":403,"message":"no"}}`, set, `error 403`},
			{"MapPublish", `{"result":{"b64data":"!"}}`, set, `error 100`},
			{"MapPublish", `<html>`, set, `error 100`},
			{"MapRemove", `{"error":{"code":403,"message":"no"}}`, remove, `error 403`},
			{"MapRemove", `{"result":{"key":"other"}}`, remove, `other  map[a:b] true`},
			{"MapRemove", `{"result":{"tags":{"c":"d"}}}`, remove, `k  map[c:d] true`},
			{"MapRemove", `{}`, remove, ``},
		} {
			b.answer(tt.event, tt.answer)
			got, _ := c.Outcome(tt.command)
			if got == "ok" {
				got = ""
				if tt.want != "" {
					pub := c.Pub()
					got = fmt.Sprintf("%s %s %v %v", pub.Key, pub.Data, pub.Tags, pub.Removed)
					if !pub.Removed && (pub.Info == nil || pub.Info.User != "42" || string(pub.Info.ConnInfo) != `{"n":1}`) {
						t.Errorf("%s: info %+v", tt.answer, pub.Info)
					}
				}
			}
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.answer, got, tt.want)
			}
		}
		about := `{"transport":"websocket","protocol":"json","encoding":"json","user":"42","channel":"map:a","key":"k"`
		if got := without(b.last("MapPublish")); got != about+`,"data":{"x":1},"meta":{"t":1}}` {
			t.Errorf("request %s", got)
		}
		if got := without(b.last("MapRemove")); got != about+`,"meta":{"t":1}}` {
			t.Errorf("request %s", got)
		}
	})
}

// A change that the backend allows is still one of a client: a full map takes no new key, whichever the backend answers with.
func TestProxiesCannotFillMaps(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			addNamespace(cfg, "map", func(o *config.ChannelOptions) {
				mapOn(o)
				o.Map.PublishProxyEnabled, o.Map.RemoveProxyEnabled, o.Map.ClientMaxEntries = true, true, 1
			})
		})
		b.answer("Connect", `{"result":{"user":"42"}}`)
		c := s.dial(nil)
		c.Connect("")
		const set, remove = `"publish":{"channel":"map:a","type":1,"key":"k","data":1}`, `"publish":{"channel":"map:a","type":1,"key":"k","removed":true}`
		for _, tt := range []struct{ event, answer, command, want string }{
			{"MapPublish", `{}`, set, "ok"},
			{"MapPublish", `{"result":{"key":"other"}}`, set, "error 106"},
			{"MapPublish", `{"result":{"data":2}}`, set, "ok"},
			{"MapRemove", `{}`, remove, "ok"},
			{"MapPublish", `{"result":{"key":"other"}}`, set, "ok"},
			{"MapPublish", `{}`, set, "error 106"},
		} {
			b.answer(tt.event, tt.answer)
			if got, _ := c.Outcome(tt.command); got != tt.want {
				t.Errorf("%s %s: %s, want %s", tt.event, tt.answer, got, tt.want)
			}
		}
	})
}

// What comes from the backend has the publication_data_format, too: answers of proxies, and changes of maps by the API.
func TestFormatOfBackends(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.Channel.PublicationDataFormat = "json_object"
			addNamespace(cfg, "map", func(o *config.ChannelOptions) {
				mapOn(o)
				o.Map.PublishProxyEnabled = true
			})
		})
		b.answer("Connect", `{"result":{"user":"42"}}`)
		b.answer("Subscribe", `{}`)
		c := s.dial(nil)
		c.Connect("")
		c.Do(`"subscribe":{"channel":"a"}`)
		c.Do(`"subscribe":{"channel":"map:a","type":1}`)
		for _, tt := range []struct{ event, answer, command, want string }{
			{"Publish", `{"result":{"data":{"x":1}}}`, `"publish":{"channel":"a","data":{}}`, "ok"},
			{"Publish", `{"result":{"data":[1]}}`, `"publish":{"channel":"a","data":{}}`, "error 107"},
			{"Publish", `{"result":{"b64data":"MQ=="}}`, `"publish":{"channel":"a","data":{}}`, "error 107"},
			{"MapPublish", `{"result":{"data":{"x":2}}}`, `"publish":{"channel":"map:a","type":1,"key":"k","data":{}}`, "ok"},
			{"MapPublish", `{"result":{"data":1}}`, `"publish":{"channel":"map:a","type":1,"key":"k","data":{}}`, "error 107"},
		} {
			b.answer(tt.event, tt.answer)
			if got, _ := c.Outcome(tt.command); got != tt.want {
				t.Errorf("%s %s: %s, want %s", tt.event, tt.answer, got, tt.want)
			}
		}
		for _, want := range []string{`{"x":1}`, `{"x":2}`} {
			if p := c.Pub(); string(p.Data) != want {
				t.Errorf("%s came, want %s", p.Data, want)
			}
		}
		for data, want := range map[string]string{`{"x":3}`: `"offset"`, `[3]`: `"code":107`} {
			if _, got := s.post("/api/map_publish", `{"channel":"map:a","key":"k","data":`+data+`}`); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", data, got, want)
			}
		}
	})
}

// Binary payloads go out as base64, with any protocol of the client.
func TestProxyBinary(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) { cfg.RPC.Proxy.BinaryEncoding = true })
		b.answer("Connect", `{"result":{}}`)
		c := s.dial(nil)
		c.Connect("")
		c.Do(`"rpc":{"method":"m","data":"x"}`)
		want := `{"transport":"websocket","protocol":"json","encoding":"binary","user":"","method":"m","b64data":"Ingi"}`
		if got := without(b.last("RPC")); got != want {
			t.Errorf("request %s", got)
		}
	})
}

// Headers of the connection go along with every later event, by the list of that event's proxy.
func TestProxyHeaders(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			cfg.RPC.Proxy.HTTPHeaders, cfg.RPC.Proxy.EmulatedHeaders = []string{"cookie", "X-Both"}, []string{"x-both", "Authorization"}
			cfg.Client.Proxy.Connect.HTTPHeaders = []string{"X-Connect"}
		})
		b.answer("Connect", `{"result":{}}`)
		c := s.dial(http.Header{"Cookie": {"a=1"}, "X-Connect": {"1"}, "X-Other": {"1"}})
		c.Connect(`"headers":{"authorization":"t","X-Both":"emulated","COOKIE":"forged","x-connect":"forged"}`)
		b.mu.Lock()
		if b.headers.Get("X-Connect") != "1" || b.headers.Get("Cookie") != "" || b.headers.Get("Authorization") != "" {
			t.Error(b.headers)
		}
		b.mu.Unlock()
		c.Do(`"rpc":{"method":"m"}`)
		b.mu.Lock()
		h := b.headers
		b.mu.Unlock()
		if h.Get("Cookie") != "a=1" || h.Get("X-Both") != "emulated" || h.Get("Authorization") != "t" || h.Get("X-Connect") != "" {
			t.Error(h)
		}
		if n := strings.Count(s.logged(), "headers in the connect command"); n != 1 {
			t.Errorf("%d lines about forged headers", n)
		}
	})
}

// The refresh proxy prolongs connections, whoever let them in.
func TestRefreshProxy(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) { cfg.Client.Proxy.Refresh.Enabled = true })
		for _, tt := range []struct{ answer, want string }{
			{`{"result":{"expire_at":9999999999,"info":2}}`, "2"},
			{`<html>`, "1"}, // lives on for a while
			{`{"result":{}}`, "disconnect 3005"},
			{`{"result":{"expired":true,"expire_at":9999999999}}`, "disconnect 3005"},
			{`{"result":{"expire_at":1}}`, "disconnect 3005"},
			{`{}`, "disconnect 3005"},
			{`{"error":{"code":1000,"message":"x"}}`, "disconnect 3005"},
			{`{"result":{"expire_at":9999999999,"b64info":"!"}}`, "disconnect 3004"},
		} {
			b.answer("Refresh", tt.answer)
			before := len(b.askedAbout("Refresh"))
			c, r := s.connectExpiring(nil, jwt.MapClaims{"sub": "u", "info": 1}, "")
			if r.Expires {
				t.Errorf("%s: the client is to refresh", tt.answer)
			}
			b.awaitAsked("Refresh", before+1)
			if strings.HasPrefix(tt.want, "disconnect") {
				if got := fmt.Sprintf("disconnect %d", c.Disconnected().Code); got != tt.want {
					t.Errorf("%s: %s, want %s", tt.answer, got, tt.want)
				}
				continue
			}
			c.Subscribe("a", "")
			if got := string(c.Do(`"presence":{"channel":"a"}`).Presence.Presence[r.Client].ConnInfo); got != tt.want {
				t.Errorf("%s: info %s, want %s", tt.answer, got, tt.want)
			}
			c.Do(`"unsubscribe":{"channel":"a"}`)
		}
		c := s.connect("u")
		if got, _ := c.Outcome(`"refresh":{` + s.tokenField(jwt.MapClaims{"sub": "u"}) + `}`); got != "disconnect 3501" {
			t.Error(got)
		}
	})
}

// A reload replaces only the proxies that changed.
func TestProxyReload(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, nil)
		before := s.app.inForce.Load().Backend.Proxies
		s.reload(proxied(b, func(cfg *config.Config) { cfg.RPC.Proxy.Timeout = time.Hour }))
		after := s.app.inForce.Load().Backend.Proxies
		if before.Of(proxy.RPC, "") == after.Of(proxy.RPC, "") || before.Of(proxy.Publish, "") != after.Of(proxy.Publish, "") {
			t.Errorf("%p %p, %p %p", before.Of(proxy.RPC, ""), after.Of(proxy.RPC, ""), before.Of(proxy.Publish, ""), after.Of(proxy.Publish, ""))
		}
	})
}

// reload takes over another configuration, but for the listeners.
func (s *testServer) reload(edit func(*config.Config)) {
	s.t.Helper()
	next := testConfig(edit)
	next.HTTPServer = s.cfg.HTTPServer
	if err := s.app.Reload(next); err != nil {
		s.t.Fatal(err)
	}
}
