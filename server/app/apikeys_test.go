package app

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/config"
)

// postAs sends a publish command.
func (s *testServer) postAs(name, value, ch string) (int, string) {
	s.t.Helper()
	res, err := http.DefaultClient.Do(s.newRequest(http.MethodPost, "/api/publish", `{"channel":"`+ch+`","data":1}`, name, value))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode, strings.TrimSpace(string(must(io.ReadAll(res.Body))))
}

const deniedReply = `{"error":{"code":103,"message":"permission denied"}}`

// A reload brings new keys and takes old ones away, http_api.key included.
func TestRotateAPIKeys(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-secret-of-billing", "the-second-secret-of-billing"
	var keys []config.APIKey
	main := apiKey
	edit := func(cfg *config.Config) { cfg.HTTPAPI.Key, cfg.HTTPAPI.Keys = main, keys }
	billing := func(name, key string) config.APIKey {
		return config.APIKey{Name: name, Key: key, Methods: []string{"publish"}, Channels: []string{"bill-*"}}
	}
	keys = []config.APIKey{billing("billing", first)}
	s := startServer(t, edit)
	s.secrets = append(s.secrets, first, second)
	want := func(key, ch string, status int, body string) {
		t.Helper()
		if gotStatus, got := s.postAs("X-API-Key", key, ch); gotStatus != status || status == http.StatusOK && got != body {
			t.Errorf("%s: %d %s, want %d %s", ch, gotStatus, got, status, body)
		}
	}
	reload := func(failure string) {
		t.Helper()
		if err := s.app.Reload(testConfig(edit)); (err == nil) != (failure == "") || err != nil && !strings.Contains(err.Error(), failure) {
			t.Errorf("error %v, want %q", err, failure)
		}
	}
	want(first, "bill-1", 200, `{"result":{}}`)
	want(first, "news", 200, deniedReply)
	want(second, "bill-1", 401, "")
	want(apiKey, "news", 200, `{"result":{}}`)
	keys = append(keys, billing("billing-new", second))
	reload("")
	want(first, "bill-1", 200, `{"result":{}}`)
	want(second, "bill-1", 200, `{"result":{}}`)
	keys = keys[1:]
	reload("")
	want(first, "bill-1", 401, "")
	want(second, "bill-1", 200, `{"result":{}}`)
	keys = []config.APIKey{{Name: "billing", Key: first, Methods: []string{"pub"}}}
	reload(`http_api.keys[0](billing).methods: "pub" is not a method`)
	want(second, "bill-1", 200, `{"result":{}}`)
	keys, main = nil, "another-key"
	reload("")
	want(apiKey, "news", 401, "")
	want(main, "news", 200, `{"result":{}}`)
	if logs := s.logged(); !strings.Contains(logs, `"key":"http_api.keys[0](billing).channels"`) || strings.Contains(logs, "some keys that changed") {
		t.Error(logs)
	}
}

// Backends may authenticate by the tokens of an identity provider.
func TestAPIByToken(t *testing.T) {
	t.Parallel()
	p := newKeyServer(t)
	p.rotate("k")
	s := startServer(t, func(cfg *config.Config) {
		cfg.HTTPAPI.JWKS = config.APIJWKS{Enabled: true, Endpoint: p.URL, Audience: "gyro", Issuer: "idp", Scope: "realtime.write",
			Methods: []string{"publish"}, Channels: []string{"bill-*"}}
	})
	for _, tt := range []struct {
		claims jwt.MapClaims
		ch     string
		status int
		want   string
	}{
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "x realtime.write"}, "bill-1", 200, `{"result":{}}`},
		{jwt.MapClaims{"aud": []string{"x", "gyro"}, "iss": "idp", "scope": []string{"realtime.write"}}, "bill-1", 200, `{"result":{}}`},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.write"}, "news", 200, deniedReply},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.writer"}, "bill-1", 401, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": 1}, "bill-1", 401, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp"}, "bill-1", 401, "claim scope does not hold the configured scope"},
		{jwt.MapClaims{"aud": "web", "iss": "idp", "scope": "realtime.write"}, "bill-1", 401, "claim aud does not hold the configured audience"},
		{jwt.MapClaims{"aud": "gyro", "iss": "x", "scope": "realtime.write"}, "bill-1", 401, "claim iss is not the configured issuer"},
		{jwt.MapClaims{"aud": "gyro", "iss": "idp", "scope": "realtime.write", "exp": 1}, "bill-1", 401, "claim exp is past: the client has to get a new token"},
	} {
		token := strings.Trim(strings.TrimPrefix(p.token("k", tt.claims), `"token":`), `"`)
		s.secrets = append(s.secrets, token)
		want := tt.want
		if tt.status == http.StatusUnauthorized {
			want = "Unauthorized: the request's token is refused: " + want
		}
		if status, got := s.postAs("Authorization", "Bearer "+token, tt.ch); status != tt.status || got != want {
			t.Errorf("%v: %d %s, want %d %s", tt.claims, status, got, tt.status, want)
		}
	}
	if status, got := s.postAs("X-API-Key", apiKey, "news"); status != http.StatusOK || got != `{"result":{}}` {
		t.Errorf("with the key: %d %s", status, got)
	}
	for _, want := range []string{`"key":"http_api.jwks.scope"`, `"key":"http_api.jwks.audience"`, `"key":"http_api.jwks.channels"`, "bearer token has no right to the channel"} {
		if !strings.Contains(s.logged(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}
