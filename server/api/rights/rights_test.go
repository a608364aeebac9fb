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

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/api/httpapi"
	"github.com/gyrohq/gyro/server/api/internal/apitest"
	"github.com/gyrohq/gyro/server/api/rights"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/internal/keytest"
)

const master, secret = "the-key-that-may-everything", "a-secret-of-billing"

func key(methods, channels string) config.APIKey {
	return config.APIKey{Name: "billing", Key: secret, Methods: strings.Fields(methods), Channels: strings.Fields(channels)}
}

// newGuard returns a guard with the key secret.
func newGuard(t testing.TB, methods, channels string) *rights.Guard {
	t.Helper()
	g, err := rights.New(rights.Config{Section: "http_api", Key: master, Keys: []config.APIKey{
		{Name: "other", Key: "another-long-secret", Methods: []string{"info"}}, key(methods, channels)}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newHandler returns the HTTP API behind a guard, and a function that returns its log.
func newHandler(t testing.TB, node *apitest.Node, g *rights.Guard) (*httpapi.Handler, func() string) {
	t.Helper()
	var lines bytes.Buffer
	log := logging.Wrap(slog.New(slog.NewJSONHandler(&lines, nil)))
	exec := api.NewExecutor(api.Config{Node: node, Channels: apitest.Namespaces(), Logger: log})
	h, err := httpapi.New(exec, httpapi.Config{Prefix: "/api", Guard: func() *rights.Guard { return g }, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	return h, func() string {
		_ = logging.Flush(log)
		return lines.String()
	}
}

func post(h *httpapi.Handler, path, body string, fields ...string) (int, string) {
	q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(fields); i += 2 {
		q.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// Every method but batch is refused without the right to it, and executed with it, by its own path,
// in a batch, and by the legacy endpoint.
func TestEveryMethod(t *testing.T) {
	const params = `{"channel":"a","channels":["a"],"data":{},"user":"u","method":"m","key":"k","version":1}`
	for _, m := range api.Methods() {
		if m == api.MethodBatch {
			continue
		}
		for _, has := range []bool{true, false} {
			methods := m.String()
			if !has {
				var others []string
				for _, o := range api.Methods() {
					if o != m && o != api.MethodBatch {
						others = append(others, o.String())
					}
				}
				methods = strings.Join(others, " ")
			}
			h, logged := newHandler(t, &apitest.Node{}, newGuard(t, methods, "*"))
			for path, body := range map[string]string{
				"/api/" + m.String(): params,
				"/api/batch":         `{"commands":[{"` + m.String() + `":` + params + `}]}`,
				"/api":               `{"method":"` + m.String() + `","params":` + params + `}`,
			} {
				status, answer := post(h, path, body, "X-API-Key", secret)
				refused := strings.Contains(answer, `"error":{"code":103,"message":"permission denied"}`)
				if status != 200 || refused == has {
					t.Errorf("%s at %s, with the right: %v: %d %s", m, path, has, status, answer)
				}
			}
			const line = `"key":"http_api.keys[1](billing).methods"`
			if logs := logged(); strings.Contains(logs, line) == has || strings.Contains(logs, secret) ||
				!has && (!strings.Contains(logs, `"method":"`+m.String()+`"`) || !strings.Contains(logs, "API key billing has no right to call the method")) {
				t.Errorf("%s: %s", m, logs)
			}
		}
	}
	keytest.Check(t, "http_api.keys[1](billing).methods")
	keytest.Check(t, "http_api.keys[1](billing).channels")
}

// Every channel that a command names is held to the patterns: each one of a broadcast, each command
// of a batch, and each one in the result of channels.
func TestChannels(t *testing.T) {
	const denied = `"error":{"code":103,"message":"permission denied"}`
	for _, batch := range []string{"", `,"parallel":true`} {
		node := &apitest.Node{Subscribers: map[string]int{"bill-1": 1, "news": 1}}
		h, logged := newHandler(t, node, newGuard(t, "*", "bill-* exact"))
		for _, tt := range []struct{ path, body, want string }{
			{"publish", `{"channel":"bill-1","data":1}`, `{"result":{}}`},
			{"publish", `{"channel":"exact","data":1}`, `{"result":{}}`},
			{"publish", `{"channel":"exactly","data":1}`, `{` + denied + `}`},
			{"publish", `{"channel":"no-namespace:x","data":1}`, `{` + denied + `}`},
			{"publish", `{"channel":"bill-` + strings.Repeat("x", 1024) + `","data":1}`, `{` + denied + `}`},
			{"publish", `{"data":1}`, `{"error":{"code":107,"message":"bad request"}}`},
			{"broadcast", `{"channels":["bill-1","news","bill-2",""],"data":2}`, `{"result":{"responses":[{"result":{}},{` + denied + `},{"result":{}},{"error":{"code":107,"message":"bad request"}}]}}`},
			{"batch", `{"commands":[{"publish":{"channel":"bill-1","data":3}},{"publish":{"channel":"news","data":3}},{"subscribe":{"user":"u","channel":"news"}},{"broadcast":{"channels":["news","exact"],"data":4}}]` + batch + `}`,
				`{"replies":[{"publish":{}},{` + denied + `},{` + denied + `},{"broadcast":{"responses":[{` + denied + `},{"result":{}}]}}]}`},
			{"presence", `{"channel":"news"}`, `{` + denied + `}`},
			{"channels", `{}`, `{"result":{"channels":{"bill-1":{"num_clients":1}}}}`},
			{"", `{"method":"publish","params":{"channel":"news","data":1}}` + "\n" + `{"method":"publish","params":{"channel":"exact","data":5}}`, `{` + denied + "}\n" + `{"result":{}}`},
		} {
			if status, got := post(h, strings.TrimSuffix("/api/"+tt.path, "/"), tt.body, "Authorization", "apikey "+secret); status != 200 || got != tt.want {
				t.Errorf("%s %s:\n%d %s, want\n    %s", tt.path, tt.body, status, got, tt.want)
			}
		}
		for _, call := range node.Calls() {
			if strings.Contains(call, "news") {
				t.Errorf("the node was asked: %s", call)
			}
		}
		logs := logged()
		for _, want := range []string{`"channel":"news"`, `"method":"broadcast"`, "API key billing has no right to the channel", `"key":"http_api.keys[1](billing).channels"`} {
			if !strings.Contains(logs, want) {
				t.Errorf("no %s in %s", want, logs)
			}
		}
		if got, _ := post(h, "/api/publish", `{"channel":"news","data":1}`, "X-API-Key", secret, "X-Gyro-Error-Mode", "transport"); got != 403 {
			t.Errorf("status %d", got)
		}
	}
}

// Who is admitted, and what those who are not are told.
func TestAdmit(t *testing.T) {
	exec := api.NewExecutor(api.Config{Node: &apitest.Node{}, Channels: apitest.Namespaces()})
	g := newGuard(t, "info", "")
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
		if c.Token == "" && !tt.guard.Knows(c.Key) {
			t.Errorf("%s is not known", tt.authorization)
		}
	}
	if g.Unlimited() || !insecure.Unlimited() || !none.Unlimited() {
		t.Error("who is held to rights?")
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
