package app

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gyrohq/gyro/server/internal/config"
)

// openAPI is what the tests need of an OpenAPI document.
type openAPI struct {
	Paths map[string]struct {
		Post struct {
			RequestBody struct{ Content map[string]openAPIContent }
			Responses   map[string]openAPIResponse
		}
	}
	Security   []map[string][]string
	Components struct {
		Responses       map[string]openAPIResponse
		Schemas         map[string]struct{ Required []string }
		SecuritySchemes map[string]struct{ Type, In, Name, Scheme string }
	}

	mu      sync.Mutex
	schemas *jsonschema.Compiler // held by mu
}

type openAPIResponse struct {
	Ref     string `json:"$ref"`
	Content map[string]openAPIContent
}

type openAPIContent struct {
	Schema struct {
		Ref string `json:"$ref"`
	}
	Examples map[string]struct{ Value json.RawMessage }
}

// readOpenAPI reads the document that a server serves. Its schemas refuse members that they do not have.
func readOpenAPI(t *testing.T, s *testServer) *openAPI {
	t.Helper()
	status, text := get(t, s.url("/swagger/openapi.json"))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	d := &openAPI{schemas: jsonschema.NewCompiler()}
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	schemas := value.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	if len(schemas) < 60 {
		t.Fatalf("%d schemas", len(schemas))
	}
	for _, schema := range schemas {
		schema.(map[string]any)["additionalProperties"] = false
	}
	d.schemas.DefaultDraft(jsonschema.Draft2020)
	if err := d.schemas.AddResource("openapi.json", value); err != nil {
		t.Fatal(err)
	}
	return d
}

// check holds a JSON text to the schema at a place of the document.
func (d *openAPI) check(t *testing.T, text string, place ...string) {
	t.Helper()
	pointer := "openapi.json#"
	for _, name := range place {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	d.mu.Lock()
	schema, err := d.schemas.Compile(pointer)
	d.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s is not what the document describes: %v", text, err)
	}
}

// startExamples starts a server in the state that the examples of the document assume.
func startExamples(t *testing.T) *testServer {
	t.Helper()
	s := startServer(t, func(cfg *config.Config) {
		cfg.UserStatus.Enabled = true
		cfg.Swagger.Enabled = true
		addNamespace(cfg, "typing", nil)
		addNamespace(cfg, "chat", func(o *config.ChannelOptions) {
			o.HistorySize, o.HistoryTTL, o.Presence, o.AllowSubscribeForClient = 100, 10*time.Minute, true, true
		})
	})
	s.api("publish", `{"channel":"chat:index","data":{"text":"Hello"}}`)
	s.connect("ann").Subscribe("chat:index", "")
	return s
}

const jsonContent = "application/json"

// TestOpenAPIExamples sends every example of the document to a server, and compares the answer with
// that of the document. Where the document has the answer under another status than 200, the request
// asks for errors with statuses of their own.
func TestOpenAPIExamples(t *testing.T) {
	t.Parallel()
	d := readOpenAPI(t, startExamples(t))
	sent := 0
	for path, at := range d.Paths {
		requests := at.Post.RequestBody.Content[jsonContent].Examples
		if len(requests) == 0 || at.Post.Responses["200"].Content == nil {
			t.Errorf("%s has no examples", path)
		}
		for status, response := range at.Post.Responses {
			for kind, content := range response.Content {
				for name, answer := range content.Examples {
					request, ok := requests[name]
					if !ok || kind != jsonContent {
						t.Errorf("%s: no request has the answer %s %s", path, status, name)
						continue
					}
					sent++
					t.Run(path+" "+status+" "+name, func(t *testing.T) {
						t.Parallel()
						d.trial(t, path, status, string(request.Value), string(answer.Value))
					})
				}
			}
		}
		for name := range requests {
			if _, ok := at.Post.Responses["200"].Content[jsonContent].Examples[name]; !ok {
				t.Errorf("%s: the request %s has no answer", path, name)
			}
		}
	}
	if sent < 60 {
		t.Errorf("%d examples", sent)
	}
}

// trial sends an example.
func (d *openAPI) trial(t *testing.T, path, status, body, want string) {
	d.check(t, body, "paths", path, "post", "requestBody", "content", jsonContent, "schema")
	s := startExamples(t)
	req, err := http.NewRequest(http.MethodPost, s.url(path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-API-Key", apiKey)
	if status != "200" {
		req.Header.Set("X-Centrifugo-Error-Mode", "transport")
	}
	got, answer := do(t, http.DefaultClient, req)
	if strconv.Itoa(got) != status {
		t.Fatalf("%s: %d %s", body, got, answer)
	}
	for _, text := range []string{answer, want} {
		d.check(t, text, "paths", path, "post", "responses", status, "content", jsonContent, "schema")
	}
	var shown, value any
	for text, to := range map[string]*any{want: &shown, answer: &value} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	if !agree("", shown, value) {
		t.Errorf("%s: got %s, want %s", body, answer, want)
	}
}

// agree compares a value with that of the document, under the name of its member. What differs each
// time has to have the same type.
func agree(name string, want, got any) bool {
	switch want := want.(type) {
	case string:
		text, ok := got.(string)
		differs := slices.Contains([]string{"epoch", "uid", "client", "name", "version"}, name)
		return ok && (differs && text != "" || strings.HasPrefix(text, want))
	case float64:
		number, ok := got.(float64)
		return ok && (number == want || name == "cpu" || name == "rss")
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, func(a, b any) bool { return agree("", a, b) })
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return false
		}
		if name == "presence" { // by IDs of connections
			return slices.EqualFunc(slices.Collect(maps.Values(want)), slices.Collect(maps.Values(members)), func(a, b any) bool { return agree("", a, b) })
		}
		delete(want, "uptime") // which is absent in the first second
		delete(members, "uptime")
		for key, value := range want {
			if found, ok := members[key]; !ok || !agree(key, value, found) {
				return false
			}
		}
		return len(members) == len(want)
	}
	return want == got
}

func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		ok        bool
	}{
		{`{"offset":1,"epoch":"x"}`, `{"offset":1,"epoch":"y"}`, true},
		{`{"offset":1,"epoch":"x"}`, `{"offset":1,"epoch":""}`, false},
		{`{"offset":1,"epoch":"x"}`, `{"offset":2,"epoch":"x"}`, false},
		{`{"offset":1}`, `{"offset":1,"epoch":"x"}`, false},
		{`{"offset":1,"epoch":"x"}`, `{"offset":1}`, false},
		{`[1,2]`, `[1]`, false},
		{`{"presence":{"a":{"user":"ann"}}}`, `{"presence":{"b":{"user":"ann"}}}`, true},
		{`{"presence":{"a":{"user":"ann"}}}`, `{"presence":{"a":{"user":"bob"}}}`, false},
		{`{"presence":{"a":{"user":"ann"}}}`, `{"presence":{}}`, false},
		{`{"message":"bad request"}`, `{"message":"bad request: no data"}`, true},
		{`{"message":"bad request"}`, `{"message":"bad"}`, false},
		{`{"uptime":1}`, `{}`, true},
		{`{"cpu":1.5,"rss":2}`, `{"cpu":0,"rss":3}`, true},
		{`{"cpu":1.5}`, `{"cpu":"1"}`, false},
	} {
		var want, got any
		if json.Unmarshal([]byte(tt.want), &want) != nil || json.Unmarshal([]byte(tt.got), &got) != nil {
			t.Fatal(tt)
		}
		if agree("", want, got) != tt.ok {
			t.Errorf("%s and %s: %v", tt.want, tt.got, !tt.ok)
		}
	}
}

// TestOpenAPIFailures: answers before there is any command are those that the document lists.
func TestOpenAPIFailures(t *testing.T) {
	t.Parallel()
	s := startExamples(t)
	d := readOpenAPI(t, s)
	for path, at := range d.Paths {
		for status, tt := range map[string]struct{ key, body string }{"401": {"wrong", "{}"}, "400": {apiKey, "[]"}} {
			req, err := http.NewRequest(http.MethodPost, s.url(path), strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-API-Key", tt.key)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			response := at.Post.Responses[status]
			if name, ok := strings.CutPrefix(response.Ref, "#/components/responses/"); ok {
				response = d.Components.Responses[name]
			}
			kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
			if _, ok := response.Content[kind]; !ok || strconv.Itoa(res.StatusCode) != status {
				t.Errorf("%s: %d %s, want %s", path, res.StatusCode, kind, status)
			}
		}
	}
}

// TestOpenAPIRequired: a request without a member that the document requires is a bad request.
func TestOpenAPIRequired(t *testing.T) {
	t.Parallel()
	s := startExamples(t)
	d := readOpenAPI(t, s)
	tried := 0
	for path, at := range d.Paths {
		body := at.Post.RequestBody.Content[jsonContent]
		for _, name := range d.Components.Schemas[strings.TrimPrefix(body.Schema.Ref, "#/components/schemas/")].Required {
			for _, example := range body.Examples {
				var request map[string]json.RawMessage
				if err := json.Unmarshal(example.Value, &request); err != nil {
					t.Fatal(err)
				}
				delete(request, name)
				body, err := json.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				if status, answer := s.post(path, string(body)); status != http.StatusOK || !strings.Contains(answer, `"code":107`) {
					t.Errorf("%s %s: %d %s", path, body, status, answer)
				}
				tried++
			}
		}
	}
	if tried < 30 {
		t.Errorf("%d requests", tried)
	}
}

// TestOpenAPIKeys: a request may present its key in each way that the document has.
func TestOpenAPIKeys(t *testing.T) {
	t.Parallel()
	s := startExamples(t)
	d := readOpenAPI(t, s)
	tried := 0
	for _, alternative := range d.Security {
		for name := range alternative {
			way := d.Components.SecuritySchemes[name]
			req, err := http.NewRequest(http.MethodPost, s.url("/api/info"), strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case way.Type == "http" && way.Scheme == "bearer":
				continue // it needs an identity provider, as TestAPIByToken has
			case way.In == "query":
				req.URL.RawQuery = way.Name + "=" + apiKey
			case way.Name == "Authorization":
				req.Header.Set(way.Name, "apikey "+apiKey)
			default:
				req.Header.Set(way.Name, apiKey)
			}
			if status, answer := do(t, http.DefaultClient, req); status != http.StatusOK {
				t.Errorf("%s: %d %s", name, status, answer)
			}
			tried++
		}
	}
	if tried != 3 {
		t.Errorf("%d ways", tried)
	}
}
