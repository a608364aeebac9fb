package rights_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/grpcapi"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/grpctest"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

const master, secret = "the-key-that-may-everything", "a-secret-of-billing"

func key(methods, channels string) config.APIKey {
	return config.APIKey{Name: "billing", Key: secret, Methods: strings.Fields(methods), Channels: strings.Fields(channels)}
}

// newGuard returns a guard with the key secret.
func newGuard(t testing.TB, section, methods, channels string) *rights.Guard {
	t.Helper()
	g, err := rights.New(rights.Config{Section: section, Key: master, Keys: []config.APIKey{
		{Name: "other", Key: "another-long-secret", Methods: []string{"info"}}, key(methods, channels)}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// call sends a request, written as JSON, with the key secret. It returns the answer as the HTTP API writes it,
// or "forbidden" for the status that error 103 has in transport mode.
type call func(m api.Method, request string, transport bool) string

// ways are the ways into the server API. All of them have the same rules.
var ways = []struct {
	name, section string
	open          func(t testing.TB, exec *api.Executor, log *slog.Logger, guard func() *rights.Guard) call
}{
	{"http", "http_api", overHTTP(func(m api.Method, request string) (path, body string) { return "/api/" + m.String(), request })},
	{"legacy endpoint", "http_api", overHTTP(func(m api.Method, request string) (path, body string) {
		if m == api.MethodBatch { // which it does not have
			return "/api/batch", request
		}
		return "/api", `{"method":"` + m.String() + `","params":` + request + `}`
	})},
	{"grpc", "grpc_api", overGRPC},
}

func overHTTP(write func(m api.Method, request string) (path, body string)) func(testing.TB, *api.Executor, *slog.Logger, func() *rights.Guard) call {
	return func(t testing.TB, exec *api.Executor, log *slog.Logger, guard func() *rights.Guard) call {
		t.Helper()
		h, err := httpapi.New(exec, httpapi.Config{Prefix: "/api", Guard: guard, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		return func(m api.Method, request string, transport bool) string {
			path, body := write(m, request)
			q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			q.Header.Set("Authorization", "apikey "+secret)
			if transport {
				q.Header.Set("X-Gyro-Error-Mode", "transport")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			switch w.Code {
			case http.StatusOK:
				return strings.TrimSpace(w.Body.String())
			case http.StatusForbidden:
				return "forbidden"
			}
			return fmt.Sprint(w.Code, w.Body)
		}
	}
}

func overGRPC(t testing.TB, exec *api.Executor, log *slog.Logger, guard func() *rights.Guard) call {
	t.Helper()
	s, err := grpcapi.New(exec, grpcapi.Config{Guard: guard, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	conn := grpctest.Serve(t, s)
	return func(m api.Method, request string, transport bool) string {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "apikey "+secret)
		if transport {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-gyro-error-mode", "transport")
		}
		answer, err := grpctest.Call(ctx, conn, m, request)
		switch status.Code(err) {
		case codes.OK:
			return answer
		case codes.PermissionDenied:
			return "forbidden"
		}
		return err.Error()
	}
}

// fixture is a way into the API with its node and its log.
type fixture struct {
	call
	node  apitest.Node
	lines bytes.Buffer
	log   *slog.Logger
}

func start(t testing.TB, way int, g *rights.Guard) *fixture {
	t.Helper()
	f := new(fixture)
	f.log = logging.Wrap(slog.New(slog.NewJSONHandler(&f.lines, nil)))
	exec := api.NewExecutor(api.Config{Node: &f.node, Channels: apitest.Namespaces(), Logger: f.log})
	f.call = ways[way].open(t, exec, f.log, func() *rights.Guard { return g })
	return f
}

func (f *fixture) logged() string {
	_ = logging.Flush(f.log)
	return f.lines.String()
}

const denied = `"error":{"code":103,"message":"permission denied"}`

// Every method but batch is refused without the right to it, and executed with it, alone and in a batch.
func TestEveryMethod(t *testing.T) {
	const params = `{"channel":"a","channels":["a"],"data":{},"user":"u","method":"m","key":"k","version":1}`
	for i, way := range ways {
		for _, m := range api.Methods() {
			if m == api.MethodBatch {
				continue
			}
			for _, has := range []bool{true, false} {
				methods := m.String()
				if !has {
					methods = allBut(m)
				}
				f := start(t, i, newGuard(t, way.section, methods, "*"))
				for method, request := range map[api.Method]string{m: params, api.MethodBatch: `{"commands":[{"` + m.String() + `":` + params + `}]}`} {
					answer := f.call(method, request, false)
					if !strings.HasPrefix(answer, "{") || strings.Contains(answer, denied) == has {
						t.Errorf("%s: %s by %s, with the right: %v: %s", way.name, m, method, has, answer)
					}
				}
				line := `"key":"` + way.section + `.keys[1](billing).methods"`
				if logs := f.logged(); strings.Contains(logs, line) == has || strings.Contains(logs, secret) ||
					!has && (!strings.Contains(logs, `"method":"`+m.String()+`"`) || !strings.Contains(logs, "API key billing has no right to call the method")) {
					t.Errorf("%s: %s: %s", way.name, m, logs)
				}
			}
		}
		keytest.Check(t, way.section+".keys[1](billing).methods")
		keytest.Check(t, way.section+".keys[1](billing).channels")
	}
}

// allBut returns the names of all methods but one, and batch.
func allBut(m api.Method) string {
	var others []string
	for _, o := range api.Methods() {
		if o != m && o != api.MethodBatch {
			others = append(others, o.String())
		}
	}
	return strings.Join(others, " ")
}

// Every channel that a command names is held to the patterns: each one of a broadcast, each command
// of a batch, and each one in the result of channels.
func TestChannels(t *testing.T) {
	steps := []struct {
		method        api.Method
		request, want string
	}{
		{api.MethodPublish, `{"channel":"bill-1","data":1}`, `{"result":{}}`},
		{api.MethodPublish, `{"channel":"exact","data":1}`, `{"result":{}}`},
		{api.MethodPublish, `{"channel":"exactly","data":1}`, `{` + denied + `}`},
		{api.MethodPublish, `{"channel":"no-namespace:x","data":1}`, `{` + denied + `}`},
		{api.MethodPublish, `{"channel":"bill-` + strings.Repeat("x", 1024) + `","data":1}`, `{` + denied + `}`},
		{api.MethodPublish, `{"data":1}`, `{"error":{"code":107,"message":"bad request"}}`},
		{api.MethodBroadcast, `{"channels":["bill-1","news","bill-2",""],"data":2}`,
			`{"result":{"responses":[{"result":{}},{` + denied + `},{"result":{}},{"error":{"code":107,"message":"bad request"}}]}}`},
		{api.MethodPresence, `{"channel":"news"}`, `{` + denied + `}`},
		{api.MethodChannels, `{}`, `{"result":{"channels":{"bill-1":{"num_clients":1}}}}`},
	}
	for _, parallel := range []string{"", `,"parallel":true`} {
		steps = append(steps, steps[0])
		last := &steps[len(steps)-1]
		last.method, last.want = api.MethodBatch, `{"replies":[{"publish":{}},{`+denied+`},{`+denied+`},{"broadcast":{"responses":[{`+denied+`},{"result":{}}]}}]}`
		last.request = `{"commands":[{"publish":{"channel":"bill-1","data":3}},{"publish":{"channel":"news","data":3}},` +
			`{"subscribe":{"user":"u","channel":"news"}},{"broadcast":{"channels":["news","exact"],"data":4}}]` + parallel + `}`
	}
	for i, way := range ways {
		f := start(t, i, newGuard(t, way.section, "*", "bill-* exact"))
		f.node.Subscribers = map[string]int{"bill-1": 1, "news": 1}
		for _, tt := range steps {
			if got := f.call(tt.method, tt.request, false); got != tt.want {
				t.Errorf("%s: %s %s:\n    %s, want\n    %s", way.name, tt.method, tt.request, got, tt.want)
			}
		}
		for _, call := range f.node.Calls() {
			if strings.Contains(call, "news") {
				t.Errorf("%s: the node was asked: %s", way.name, call)
			}
		}
		logs := f.logged()
		for _, want := range []string{`"channel":"news"`, `"method":"broadcast"`, "API key billing has no right to the channel", `"key":"` + way.section + `.keys[1](billing).channels"`} {
			if !strings.Contains(logs, want) {
				t.Errorf("%s: no %s in %s", way.name, want, logs)
			}
		}
		if way.name == "legacy endpoint" { // which has errors in its answers alone
			continue
		}
		if got := f.call(api.MethodPublish, `{"channel":"news","data":1}`, true); got != "forbidden" {
			t.Errorf("%s: %s", way.name, got)
		}
	}
}

// Who is admitted, and what those who are not are told.
func TestAdmit(t *testing.T) {
	exec := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces()})
	g := newGuard(t, "http_api", "info", "")
	none, err := rights.New(rights.Config{Section: "grpc_api"})
	if err != nil {
		t.Fatal(err)
	}
	insecure, err := rights.New(rights.Config{Section: "http_api", Key: master, Insecure: true, Keys: []config.APIKey{key("info", "")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		guard         *rights.Guard
		authorization string
		all           bool
		want          string
	}{
		{g, "apikey " + master, true, ""},
		{g, "APIKEY\t" + secret, false, ""},
		{g, "apikey " + secret + "x", false, "the request's API key is neither http_api.key nor one of http_api.keys"},
		{g, "apikey " + secret + " x", false, "the request has no API key"},
		{g, secret, false, "the request has no API key"},
		{g, "Bearer x", false, "the request has a token, and http_api.jwks is not enabled"},
		{none, "apikey " + secret, false, "the server has no grpc_api.key, and without one no request is allowed"},
		{insecure, "", true, ""},
		{insecure, "apikey " + secret, true, ""},
		{insecure, "Bearer x", true, ""},
	} {
		c := rights.Authorization(tt.authorization)
		got, err := tt.guard.Admit(context.Background(), exec, c)
		if tt.want != "" {
			if _, text := refusal.Explain(errors.Join(err)); !errors.Is(err, rights.ErrUnauthorized) || text != tt.want {
				t.Errorf("%s: error %v, want %s", tt.authorization, err, tt.want)
			}
			continue
		}
		if err != nil || (got == exec) != tt.all {
			t.Errorf("%s: everything: %v, error %v", tt.authorization, got == exec, err)
		}
		if got, ok := tt.guard.AdmitKey(exec, c.Key); c.Token == "" && (!ok || (got == exec) != tt.all) {
			t.Errorf("%s: the key alone: everything: %v, known: %v", tt.authorization, got == exec, ok)
		}
	}
}

func TestMistakes(t *testing.T) {
	jwks := config.APIJWKS{Enabled: true, Endpoint: "https://idp.example/certs", Methods: []string{"*"}, Channels: []string{"*"}}
	for _, tt := range []struct {
		keys []config.APIKey
		jwks config.APIJWKS
		want string
	}{
		{[]config.APIKey{key("info", "")}, jwks, ""},
		{[]config.APIKey{{Name: "a b", Key: secret}}, config.APIJWKS{}, "http_api.keys[0](a b): the name does not match"},
		{[]config.APIKey{key("info", ""), key("info", "")}, config.APIJWKS{}, "http_api.keys[1](billing): the name is given twice"},
		{[]config.APIKey{key("info", ""), {Name: "b2", Key: secret}}, config.APIJWKS{}, "http_api.keys[1](b2).key: another name has the same key"},
		{[]config.APIKey{{Name: "b2", Key: master}}, config.APIJWKS{}, "http_api.keys[0](b2).key: another name has the same key"},
		{[]config.APIKey{{Name: "b2", Key: "short"}}, config.APIJWKS{}, "http_api.keys[0](b2).key: is shorter than 16 bytes"},
		{[]config.APIKey{key("", "*")}, config.APIJWKS{}, "http_api.keys[0](billing).methods: is required"},
		{[]config.APIKey{key("publsh", "*")}, config.APIJWKS{}, `http_api.keys[0](billing).methods: "publsh" is not a method`},
		{[]config.APIKey{key("batch", "*")}, config.APIJWKS{}, "http_api.keys[0](billing).methods: batch needs no right"},
		{[]config.APIKey{key("publish", "[a")}, config.APIJWKS{}, `http_api.keys[0](billing).channels: pattern "[a": `},
		{nil, config.APIJWKS{Enabled: true, Endpoint: "x"}, "http_api.jwks.endpoint: not an http"},
		{nil, config.APIJWKS{Enabled: true, Endpoint: "https://x/{{a}}"}, "http_api.jwks.endpoint: has a placeholder"},
		{nil, config.APIJWKS{Enabled: true, Endpoint: "https://x"}, "http_api.jwks.methods: is required"},
		{nil, config.APIJWKS{Enabled: true, Endpoint: "https://x", TLS: config.TLS{Enabled: true, ServerCAPEM: "x"}}, "http_api.jwks.tls.server_ca_pem: "},
	} {
		_, err := rights.New(rights.Config{Section: "http_api", Key: master, Keys: tt.keys, JWKS: tt.jwks})
		if (err == nil) != (tt.want == "") || err != nil && (!strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), secret)) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	exec := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces()})
	var keys []config.APIKey
	for i := range 100 {
		k := key("publish", "bill-*")
		k.Name, k.Key = fmt.Sprint("key-", i), fmt.Sprint(secret, i)
		keys = append(keys, k)
	}
	for name, c := range map[string]rights.Config{"one key": {Key: master}, "100 keys": {Key: master, Keys: keys}} {
		g, err := rights.New(c)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Admit(b.Context(), exec, rights.Credentials{Key: master}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
