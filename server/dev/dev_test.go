package dev

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/origin"
)

func configOf(t *testing.T, o Options) *config.Config {
	t.Helper()
	cfg, err := Config(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestConfig(t *testing.T) {
	t.Parallel()
	first, second := configOf(t, Options{Port: 1}), configOf(t, Options{Port: 2})
	if first.HTTPAPI.Key == second.HTTPAPI.Key || first.Client.Token.HMACSecretKey == second.Client.Token.HMACSecretKey {
		t.Error("two servers share secrets")
	}
	if first.HTTPServer.Address != "127.0.0.1" || first.HTTPServer.Port != 1 {
		t.Errorf("listens on %+v", first.HTTPServer)
	}
	for name, on := range map[string]bool{
		"http_stream": first.HTTPStream.Enabled, "sse": first.SSE.Enabled, "uni_sse": first.UniSSE.Enabled, "uni_poll": first.UniPoll.Enabled,
		"uni_http_stream": first.UniHTTPStream.Enabled, "uni_websocket": first.UniWebSocket.Enabled, "sockjs": !first.SockJS.Enabled,
	} {
		if !on {
			t.Errorf("%s is not as announced", name)
		}
	}
	fixed := configOf(t, Options{Secret: "ü, 'secret'", APIKey: "key"})
	if fixed.HTTPAPI.Key != "key" || fixed.Client.Token.HMACSecretKey != "ü, 'secret'" {
		t.Error("secrets are not those that were given")
	}
}

func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for want, options := range map[string][]Options{
		"--secret":  {{Secret: "a\nb"}, {Secret: "\xff"}, {Secret: strings.Repeat("x", 1025)}},
		"--api-key": {{APIKey: "a b"}, {APIKey: "ü"}, {APIKey: strings.Repeat("x", 257)}},
		"--origin": {
			{Origins: []string{""}}, {Origins: []string{"localhost:3000"}}, {Origins: []string{"https://a.example/"}},
			{Origins: []string{"https://a.example", "https://B.example"}}, {Origins: []string{"https://[a"}},
		},
	} {
		for _, o := range options {
			if _, err := Config(o); err == nil || !strings.HasPrefix(err.Error(), want+": ") {
				t.Errorf("%+v: %v, want one that begins with %s", o, err, want)
			}
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	const own = "https://app.example.com"
	for from, want := range map[string]bool{
		"":                              true, // no browser
		"http://localhost":              true,
		"http://localhost:5173":         true,
		"https://localhost:5173":        true,
		"http://app.localhost:80":       true,
		"http://127.0.0.1:3000":         true,
		"http://[::1]:3000":             true,
		own:                             true,
		"null":                          false,
		"http://127.0.0.2:3000":         false,
		"http://10.0.0.1:3000":          false,
		"http://localhost.example":      false,
		"http://localhost.example:80":   false,
		"http://notlocalhost":           false,
		"http://127.0.0.1.example":      false,
		"http://127.0.0.1.example:80":   false,
		"https://app.example.com.evil":  false,
		"file://localhost":              false,
		"http://evil.example":           false,
		"http://localhost@evil.example": false,
	} {
		m, err := origin.New(configOf(t, Options{Origins: []string{own}}).Client.AllowedOrigins)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(from); got != want {
			t.Errorf("%q: allowed is %t, want %t", from, got, want)
		}
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8000": true, "LocalHost:8000": true, "127.0.0.1": true, "127.0.0.1:8000": true,
		"127.1.2.3:1": true, "[::1]": true, "[::1]:8000": true,
		"": false, ":8000": false, "evil.example": false, "evil.example:8000": false, "localhost.evil.example": false,
		"10.0.0.1:8000": false, "0.0.0.0:8000": false, "localhost:": false, "localhost:x": false, "localhost:1;script-src *": false,
		"[::1%25lo]:1": false, "localhost:99999": false, "127.0.0.1.evil.example": false,
	} {
		if got := Local(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

func TestUser(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, Options{})
	v, err := auth.NewVerifier(cfg.Client.Token, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	user := User()
	token, err := sign(cfg, user)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.VerifyConnect(t.Context(), token); err != nil || got.User != user || user == "" {
		t.Errorf("token of %q: %+v %v", user, got, err)
	}
}

// Two tabs of a newcomer are two users: as many in a row as there are names.
func TestUsersDiffer(t *testing.T) {
	names := make(map[string]bool)
	for range len(adjectives) * len(animals) / 2 { // other tests take names, too
		names[User()] = true
	}
	if len(names) != len(adjectives)*len(animals)/2 {
		t.Errorf("%d names", len(names))
	}
}
