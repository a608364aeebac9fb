package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/api/rights"
)

var position = gyro.PublishResult{Position: gyro.StreamPosition{Offset: 1, Epoch: "aXbQ"}}

func newExecutor(node *apitest.Node) *api.Executor {
	return api.NewExecutor(api.Config{
		Node: node, Channels: apitest.Namespaces(), Logger: slog.New(slog.DiscardHandler),
		RPC: map[string]api.RPCHandler{
			"deny":   func(context.Context, []byte) ([]byte, error) { return nil, &api.Error{Code: 403, Message: "no"} },
			"exists": func(context.Context, []byte) ([]byte, error) { return nil, api.ErrConflict },
			"binary": func(context.Context, []byte) ([]byte, error) { return []byte{0}, nil },
		},
	})
}

func newHandler(t testing.TB, node *apitest.Node, c httpapi.Config) *httpapi.Handler {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	h, err := httpapi.New(newExecutor(node), c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func insecure(t testing.TB, node *apitest.Node) *httpapi.Handler {
	return newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: anybody})
}

// byKey is for senders with a key; an empty one lets nobody in.
func byKey(key string) func() *rights.Guard {
	return guardOf(rights.Config{Section: "http_api", Key: key})
}

// anybody lets every sender in.
func anybody() *rights.Guard { return guardOf(rights.Config{Section: "http_api", Insecure: true})() }

func guardOf(c rights.Config) func() *rights.Guard {
	g, err := rights.New(c)
	if err != nil {
		panic(err) // there is no list of keys that could be wrong
	}
	return func() *rights.Guard { return g }
}

func send(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func post(h http.Handler, target, body string, header ...string) *httptest.ResponseRecorder {
	return send(h, http.MethodPost, target, body, header...)
}

// expect checks status, body and the headers that belong to them.
// expect compares an answer. A body that ends with an ellipsis is the beginning of one.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	begin, open := strings.CutSuffix(body, "…")
	if w.Code != status || !strings.HasPrefix(w.Body.String(), begin) || !open && w.Body.String() != body {
		t.Errorf("got  %d %q\nwant %d %q", w.Code, w.Body, status, body)
	}
	contentType := ""
	switch {
	case strings.HasPrefix(body, "{"):
		contentType = "application/json"
	case body != "":
		contentType = "text/plain; charset=utf-8"
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Error("text answer without nosniff")
		}
	}
	if got := w.Header().Get("Content-Type"); got != contentType {
		t.Errorf("Content-Type %q, want %q", got, contentType)
	}
	for name := range w.Header() {
		if strings.HasPrefix(name, "Access-Control") || name == "Www-Authenticate" {
			t.Errorf("unexpected header %s", name)
		}
	}
}

// TestExamples has a golden answer for every method.
func TestExamples(t *testing.T) {
	tests := []struct{ path, body, want string }{
		{"publish", `{"channel":"room","data":{"msg":"hi"},"tags":{"lang":"en"}}`, `{"result":{"offset":1,"epoch":"aXbQ"}}`},
		{"publish", `{"CHANNEL":"room","Data":{"msg":"hi"},"unknown":[{}]}`, `{"result":{"offset":1,"epoch":"aXbQ"}}`},
		{"broadcast", `{"channels":["room","no:such"],"data":{}}`,
			`{"result":{"responses":[{"result":{"offset":1,"epoch":"aXbQ"}},{"error":{"code":102,"message":"unknown channel"}}]}}`},
		{"subscribe", `{"channel":"room","user":"42"}`, `{"result":{}}`},
		{"unsubscribe", `{"channel":"room","user":"42"}`, `{"result":{}}`},
		{"disconnect", `{"user":"42"}`, `{"result":{}}`},
		{"refresh", `{"user":"42"}`, `{"result":{}}`},
		{"presence", `{"channel":"full:a"}`, `{"result":{"presence":{"c1":{"user":"42","client":"c1","conn_info":{"n":1}}}}}`},
		{"presence_stats", `{"channel":"full:a"}`, `{"result":{"num_clients":2,"num_users":1}}`},
		{"history", `{"channel":"full:a","limit":1}`,
			`{"result":{"publications":[{"data": {"a" : 1} ,"offset":7}],"epoch":"e","offset":7}}`},
		{"history_remove", `{"channel":"full:a"}`, `{"result":{}}`},
		{"channels", `{}`, `{"result":{"channels":{"room":{"num_clients":3}}}}`},
		{"info", `{}`, `{"result":{"nodes":[{"uid":"u","name":"n","version":"v","num_clients":0,"num_users":0,"num_channels":0,"num_subs":0}]}}`},
		{"rpc", `{"method":"x"}`, `{"error":{"code":104,"message":"not found"}}`},
		{"batch", `{"commands":[{"publish":{"channel":"room","data":1}},{"disconnect":{}},{"publish":{"channel":"no:such"}}]}`,
			`{"replies":[{"publish":{"offset":1,"epoch":"aXbQ"}},{"disconnect":{}},{"error":{"code":102,"message":"unknown channel"}}]}`},
		{"batch", `{"commands":[]}`, `{}`},
		{"publish", `null`, `{"error":{"code":107,"message":"bad request"}}`},
		{"map_publish", `{"channel":"map:a","key":"k"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"map_remove", `{"channel":"map:a","key":"k"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"map_read_state", `{"channel":"map:a"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"map_read_stream", `{"channel":"map:a"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"map_stats", `{"channel":"map:a"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"map_clear", `{"channel":"map:a"}`, `{"error":{"code":108,"message":"not available"}}`},
		{"shared_poll_publish", `{"channel":"poll:a","key":"k","version":1}`, `{"error":{"code":108,"message":"not available"}}`},
	}
	h := insecure(t, &apitest.Node{
		Result:      position,
		PresenceMap: map[string]*gyro.ClientInfo{"c1": {User: "42", Client: "c1", ConnInfo: []byte(`{"n":1}`)}},
		Stats:       gyro.PresenceStats{Clients: 2, Users: 1},
		Stream: gyro.History{Top: gyro.StreamPosition{Offset: 7, Epoch: "e"},
			Publications: []*gyro.Publication{{Offset: 7, Data: []byte(` {"a" : 1} `)}}},
		Subscribers: map[string]int{"room": 3},
		Cluster:     []gyro.NodeInfo{{UID: "u", Name: "n", Version: "v"}},
	})
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			expect(t, post(h, "/api/"+tt.path, tt.body), 200, tt.want)
			expect(t, post(h, "/api/"+tt.path, tt.body, "Content-Type", "text/html"), 200, tt.want)
		})
	}
}

func TestBadBodies(t *testing.T) {
	node := &apitest.Node{}
	h := insecure(t, node)
	bodies := []string{"", " ", "{", "[]", `"x"`, "1", "true", "{}x", "{} {}", "{}\x00", "{a:1}", "nul", "\ufeff{}", "{\"a\":\"\xff\"}", "{'a':1}"}
	for _, m := range api.Methods() {
		for _, b := range bodies {
			expect(t, post(h, "/api/"+m.String(), b), 400, "Bad Request: …")
		}
	}
	for path, body := range map[string]string{
		"publish": `{"channel":1}`, "broadcast": `{"channels":"a"}`, "history": `{"limit":1.5}`, "refresh": `{"expire_at":"1"}`,
		"subscribe": `{"override":{"presence":true}}`, "batch": `{"commands":{}}`, "disconnect": `{"disconnect":[]}`,
	} {
		expect(t, post(h, "/api/"+path, body), 400, "Bad Request: …")
	}
	expect(t, post(h, "/api/publish", "{\"channel\":\"a\",\"data\":\"\xff\"}"), 400, "Bad Request: …")
	if calls := node.Calls(); len(calls) != 0 {
		t.Errorf("executed %v", calls)
	}
}

func TestPaths(t *testing.T) {
	node := &apitest.Node{}
	body := `{"channel":"a","data":1}`
	for prefix, base := range map[string]string{"/api": "/api", "/api/": "/api", "api//": "/api", "/v1/rt": "/v1/rt", "": "", "/": ""} {
		h := newHandler(t, node, httpapi.Config{Prefix: prefix, Guard: anybody})
		expect(t, post(h, base+"/publish", body), 200, `{"result":{}}`)
		legacy := base
		if legacy == "" {
			legacy = "/"
			expect(t, post(h, "/unknown", `{"method":"info"}`), 200, `{"result":{"nodes":[]}}`)
			expect(t, send(h, "GET", "/unknown", ""), 405, "")
		} else {
			for _, path := range []string{"/", "/publish/", "/unknown", "/block_user", "/Publish"} {
				expect(t, post(h, base+path, body), 404, "404 page not found: …")
			}
			expect(t, post(h, "/", body), 404, "404 page not found: …")
		}
		expect(t, post(h, legacy, `{"method":"info"}`), 200, `{"result":{"nodes":[]}}`)
		mux := http.NewServeMux()
		for _, p := range h.Patterns() {
			mux.Handle(p, h)
		}
		expect(t, post(mux, base+"/publish", body), 200, `{"result":{}}`)
		expect(t, post(mux, legacy, `{"method":"info"}`), 200, `{"result":{"nodes":[]}}`)
		if want := len(api.Methods()) + 1; len(h.Patterns()) != want || !slices.Contains(h.Patterns(), base+"/history_remove") {
			t.Errorf("patterns: %v", h.Patterns())
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []httpapi.Config{{ErrorMode: "Transport"}, {Prefix: "/{x}"}, {Prefix: "/a b"}} {
		if _, err := httpapi.New(newExecutor(&apitest.Node{}), c); err == nil || !strings.Contains(err.Error(), "http_api.") {
			t.Errorf("%+v: error %v does not name the key", c, err)
		}
	}
	if _, err := httpapi.New(nil, httpapi.Config{}); err == nil {
		t.Error("accepted without executor")
	}
}

func TestMethodBeforeKey(t *testing.T) {
	h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey("k")})
	for _, m := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		expect(t, send(h, m, "/api/publish", "{}"), 405, "")
		expect(t, send(h, m, "/api", "{}"), 405, "")
	}
	expect(t, post(h, "/api/publish", "{"), 401, "Unauthorized: …")
}

func TestAuth(t *testing.T) {
	const key = "se cret"
	tests := []struct {
		name   string
		key    string
		query  string
		header []string
		want   int
	}{
		{"nothing", key, "", nil, 401},
		{"no key configured", "", "", []string{"X-API-Key", "x"}, 401},
		{"no key configured, empty key", "", "?api_key=", []string{"Authorization", "apikey "}, 401},
		{"header", key, "", []string{"x-api-key", key}, 200},
		{"wrong", key, "", []string{"X-API-Key", "secret"}, 401},
		{"prefix", key, "", []string{"X-API-Key", "se"}, 401},
		{"wrong header hides Authorization", "k", "", []string{"X-API-Key", "x", "Authorization", "apikey k"}, 401},
		{"empty header does not", "k", "", []string{"X-API-Key", "", "Authorization", "apikey k"}, 200},
		{"Authorization", "k", "", []string{"Authorization", "apikey k"}, 200},
		{"Authorization, case and space", "k", "", []string{"Authorization", "  ApiKey \t k "}, 200},
		{"Authorization, wrong word", "k", "", []string{"Authorization", "bearer k"}, 401},
		{"Authorization, three parts", "k", "", []string{"Authorization", "apikey k k"}, 401},
		{"Authorization, one part", "k", "", []string{"Authorization", "k"}, 401},
		{"Authorization, case of key", "k", "", []string{"Authorization", "apikey K"}, 401},
		{"query", key, "?api_key=se+cret", nil, 200},
		{"query, wrong", key, "?api_key=x", nil, 401},
		{"query, other name", key, "?apikey=se+cret", nil, 401},
		{"query beside wrong header", "k", "?api_key=k", []string{"X-API-Key", "x"}, 200},
		{"query beside wrong Authorization", "k", "?api_key=k", []string{"Authorization", "apikey x"}, 200},
		{"malformed query", "k", "?api_key=%zz", nil, 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: byKey(tt.key)})
			for _, path := range []string{"/api/info", "/api"} {
				w := post(h, path+tt.query, `{"method":"info"}`, tt.header...)
				if w.Code != tt.want {
					t.Errorf("%s: %d, want %d", path, w.Code, tt.want)
				}
				if tt.want == 401 {
					expect(t, w, 401, "Unauthorized: …")
				}
			}
			open := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: anybody})
			expect(t, post(open, "/api/info"+tt.query, `{}`, tt.header...), 200, `{"result":{"nodes":[]}}`)
		})
	}
}

func TestErrorModes(t *testing.T) {
	tests := []struct {
		path, body string
		err        error
		status     int
		bare       string
	}{
		{"publish", `{"channel":"a","data":1}`, errors.New("down"), 500, `{"code":100,"message":"internal server error"}`},
		{"publish", `{"channel":"no:a","data":1}`, nil, 404, `{"code":102,"message":"unknown channel"}`},
		{"rpc", `{"method":"x"}`, nil, 404, `{"code":104,"message":"not found"}`},
		{"publish", `{}`, nil, 400, `{"code":107,"message":"bad request"}`},
		{"broadcast", `{}`, nil, 400, `{"code":107,"message":"bad request"}`},
		{"presence", `{"channel":"a"}`, nil, 400, `{"code":108,"message":"not available"}`},
		{"history", `{"channel":"full:a"}`, protocol.ErrorUnrecoverablePosition, 416, `{"code":112,"message":"unrecoverable position"}`},
		{"rpc", `{"method":"exists"}`, nil, 409, `{"code":113,"message":"conflict"}`},
		{"rpc", `{"method":"deny"}`, nil, 500, `{"code":403,"message":"no"}`},
	}
	for _, tt := range tests {
		node := &apitest.Node{Err: tt.err}
		h := insecure(t, node)
		wrapped := `{"error":` + tt.bare + `}`
		expect(t, post(h, "/api/"+tt.path, tt.body), 200, wrapped)
		expect(t, post(h, "/api/"+tt.path, tt.body, "X-Centrifugo-Error-Mode", "Transport"), 200, wrapped)
		expect(t, post(h, "/api/"+tt.path, tt.body, "X-Centrifugo-Error-Mode", "transport"), tt.status, tt.bare)
		expect(t, post(h, "/api/"+tt.path, tt.body, "X-Gyro-Error-Mode", "transport"), tt.status, tt.bare)
		h = newHandler(t, node, httpapi.Config{Prefix: "/api", Guard: anybody, ErrorMode: "transport"})
		expect(t, post(h, "/api/"+tt.path, tt.body), tt.status, tt.bare)
	}
	h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: anybody, ErrorMode: "transport"})
	expect(t, post(h, "/api/publish", `{"channel":"a","data":1}`), 200, `{"result":{}}`)
	expect(t, post(h, "/api/batch", `{"commands":[{}]}`), 200, `{"replies":[{"error":{"code":104,"message":"not found"}}]}`)
	expect(t, post(h, "/api/broadcast", `{"channels":[""],"data":1}`), 200,
		`{"result":{"responses":[{"error":{"code":107,"message":"bad request"}}]}}`)
	expect(t, post(h, "/api", `{"params":{}}`), 200, `{"error":{"code":107,"message":"bad request"}}`)
}

func TestBinaryAnswers(t *testing.T) {
	h := insecure(t, &apitest.Node{
		Stream:      gyro.History{Publications: []*gyro.Publication{{Data: []byte{1, 2}}}},
		PresenceMap: map[string]*gyro.ClientInfo{"c": {ConnInfo: []byte("{")}},
	})
	const text = "Internal Server Error\n"
	expect(t, post(h, "/api/history", `{"channel":"full:a"}`), 500, text)
	expect(t, post(h, "/api/presence", `{"channel":"full:a"}`), 500, text)
	expect(t, post(h, "/api/rpc", `{"method":"binary"}`), 500, text)
	expect(t, post(h, "/api/batch", `{"commands":[{"history":{"channel":"full:a"}}]}`), 500, text)
	expect(t, post(h, "/api", `{"method":"history","params":{"channel":"full:a"}}`), 500, text)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestBodyLimits(t *testing.T) {
	h := newHandler(t, &apitest.Node{}, httpapi.Config{Prefix: "/api", Guard: anybody, MaxBodySize: 4000})
	fits := `{"pad":"` + strings.Repeat("x", 4000-10) + `"}`
	for _, path := range []string{"/api/info", "/api"} {
		for _, chunked := range []bool{false, true} {
			do := func(body string) *httptest.ResponseRecorder {
				var src io.Reader = strings.NewReader(body)
				if chunked {
					src = io.MultiReader(src)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, src))
				return w
			}
			if w := do(fits); w.Code != 200 {
				t.Errorf("%s: a body of the limit's size: %d", path, w.Code)
			}
			w := do(fits + " ")
			expect(t, w, 413, "Request Entity Too Large: …")
			if chunked && w.Header().Get("Connection") != "close" {
				t.Error("net/http is to read the rest of a body without length")
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, failingReader{}))
		expect(t, w, 500, "Internal Server Error\n")
	}
}

func TestLargeAnswer(t *testing.T) {
	data := []byte(`"` + strings.Repeat("x", 200_000) + `"`)
	h := insecure(t, &apitest.Node{Stream: gyro.History{Publications: []*gyro.Publication{{Data: data}}}})
	srv := httptest.NewServer(h)
	defer srv.Close()
	res, err := http.Post(srv.URL+"/api/history", "", strings.NewReader(`{"channel":"full:a"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.ContentLength != int64(len(body)) || !bytes.Contains(body, data) || !json.Valid(body) {
		t.Errorf("%v, Content-Length %d, %d bytes", err, res.ContentLength, len(body))
	}
}

// TestPayloadIsKept: what is published is what was sent, byte for byte, and does
// not change when buffers are used again.
func TestPayloadIsKept(t *testing.T) {
	node := &apitest.Node{}
	h := insecure(t, node)
	payloads := []string{`{"a" :  [1e400, 12345678901234567890, "\u00e9\/"] }`, `null`, `"<>&"`, "{\n}", `0.10`}
	var want []string
	for _, p := range payloads {
		post(h, "/api/publish", `{"channel":"c", "data":`+p+`}`)
		want = append(want, "publish c "+p)
	}
	if diff := cmp.Diff(want, node.Calls()); diff != "" {
		t.Error(diff)
	}
}

// A request that is refused by its form leaves a line, and the answer says the same.
func TestRefusedRequests(t *testing.T) {
	for _, tt := range []struct {
		key          string
		path, body   string
		header       []string
		answer, line string
	}{
		{"k", "/api/publish", "{}", nil, "Unauthorized: the request has no API key: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
			`"path":"/api/publish","code":401,"reason":"the request has no API key","key":"http_api.key"`},
		{"k", "/api/publish", "{}", []string{"X-API-Key", "secret"}, "Unauthorized: the request's API key is not http_api.key: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
			`"code":401,"reason":"the request's API key is not http_api.key","key":"http_api.key"`},
		{"", "/api/publish", "{}", []string{"X-API-Key", "secret"},
			"Unauthorized: the server has no http_api.key, and without one no request is allowed: send it as X-API-Key: KEY or Authorization: apikey KEY\n",
			`"reason":"the server has no http_api.key, and without one no request is allowed","key":"http_api.key"`},
		{"k", "/api/publish", `{"channel":`, []string{"X-API-Key", "k"}, "Bad Request: the body is not the JSON object of a publish request: …",
			`"path":"/api/publish","code":400,"reason":"the body is not the JSON object of a publish request: `},
		{"k", "/api", `{"method":"none"}`, []string{"X-API-Key", "k"}, "Bad Request: command 1 is not a JSON object with method and params; a path for each method, such as /api/publish, takes params alone: …",
			`"path":"/api","code":400,"reason":"command 1 is not`},
	} {
		var lines bytes.Buffer
		log := logging.Wrap(slog.New(slog.NewJSONHandler(&lines, nil)))
		h, err := httpapi.New(newExecutor(&apitest.Node{}), httpapi.Config{Prefix: "/api", Guard: byKey(tt.key), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		w := post(h, tt.path, tt.body, tt.header...)
		expect(t, w, w.Code, tt.answer)
		if err := logging.Flush(log); err != nil {
			t.Fatal(err)
		}
		if got := lines.String(); !strings.Contains(got, tt.line) || !strings.Contains(got, `"level":"INFO","msg":"API request refused","addr":"192.0.2.1:1234"`) || strings.Contains(got, "secret") {
			t.Errorf("%s %s: %s", tt.path, tt.body, got)
		}
	}
}
