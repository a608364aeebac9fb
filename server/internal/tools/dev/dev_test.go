package dev

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
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

// TestBase: what a developer's configuration says stays, but for what the demo and the announcement need.
func TestBase(t *testing.T) {
	t.Parallel()
	base := config.DefaultConfig()
	base.HTTPServer.Address, base.HTTPServer.InternalPort, base.HTTPServer.TLS.Enabled = "0.0.0.0", "9000", true
	base.GRPCAPI.Enabled, base.GRPCAPI.Key, base.GRPCAPI.Address = true, "grpc-key", "0.0.0.0"
	base.HTTPAPI.Key, base.HTTPAPI.HandlerPrefix, base.WebSocket.HandlerPrefix, base.SSE.HandlerPrefix = "own-key", "/v1", "/ws", "/events"
	base.Client.Token.HMACSecretKey, base.Client.AllowedOrigins, base.Client.ChannelLimit = "own-secret", []string{"https://a.example"}, 7
	base.Channel.Namespaces = []config.Namespace{{Name: "ticket", ChannelOptions: demoOptions()}}
	cfg := configOf(t, Options{Port: 1, Base: base})
	if h := cfg.HTTPServer; h.Address != "127.0.0.1" || h.InternalPort != "" || h.TLS.Enabled || cfg.GRPCAPI.Address != "127.0.0.1" {
		t.Errorf("listens on %+v", h)
	}
	if cfg.HTTPAPI.Key != "own-key" || cfg.Client.Token.HMACSecretKey != "own-secret" || cfg.Client.ChannelLimit != 7 {
		t.Error("the configuration does not count")
	}
	if cfg.HTTPAPI.HandlerPrefix != "/api" || cfg.WebSocket.HandlerPrefix != "/connection/websocket" || cfg.SSE.HandlerPrefix != "/connection/sse" {
		t.Error("the demo does not find its endpoints")
	}
	if n := cfg.Channel.Namespaces; len(n) != 2 || n[0].Name != "ticket" || n[1].Name != Namespace {
		t.Errorf("namespaces: %+v", n)
	}
	if o := cfg.Client.AllowedOrigins; o[0] != "https://a.example" || len(o) != 1+len(loopbackOrigins) {
		t.Errorf("origins: %q", o)
	}
	if len(base.Channel.Namespaces) != 1 || base.HTTPServer.Address != "0.0.0.0" {
		t.Error("the configuration that was given has changed")
	}
	if given := configOf(t, Options{APIKey: "flag", Secret: "of-a-flag", Base: base}); given.HTTPAPI.Key != "flag" || given.Client.Token.HMACSecretKey != "of-a-flag" {
		t.Error("flags do not count")
	}
	own := config.Namespace{Name: Namespace}
	base.Channel.Namespaces = append(base.Channel.Namespaces, own)
	if n := configOf(t, Options{Base: base}).Channel.Namespaces; len(n) != 2 || n[1].AllowSubscribeForClient {
		t.Errorf("a namespace of the same name is not the developer's: %+v", n)
	}
	base.Client.Token.JWKSPublicEndpoint = "https://a.example/jwks"
	if _, err := Config(Options{Base: base}); err == nil || !strings.HasPrefix(err.Error(), "client.token.jwks_public_endpoint") {
		t.Errorf("%v", err)
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
		m, err := config.NewOrigins(configOf(t, Options{Origins: []string{own}}).Client.AllowedOrigins)
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
