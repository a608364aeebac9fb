package config

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/server/internal/config/engines"
)

func TestReloaded(t *testing.T) {
	started, next, want := DefaultConfig(), DefaultConfig(), DefaultConfig()
	started.Channel.Namespaces = []Namespace{{Name: "gone"}}
	// What a server takes over,
	for _, c := range []*Config{next, want} {
		c.Client.Token.HMACSecretKey, c.Client.SubscriptionToken.Audience = "new", "new"
		c.Client.Insecure, c.Client.UserPersonalChannel.Enabled = true, true
		c.Channel.Namespaces = []Namespace{{Name: "come"}}
		c.Channel.WithoutNamespace.Presence, c.RPC.Ping.Enabled = true, true
	}
	// what it does not, and what has no effect anyhow.
	next.Client.AllowedOrigins, next.Client.SubscriptionToken.Enabled = []string{"https://a.example"}, true
	next.Channel.MaxLength, next.HTTPServer.Port, next.Client.ConnectionLimit = 7, 1, 7
	next.Brokers = []engines.NamedBroker{{Name: "late"}}
	next.GRPCAPI.Port, next.UsageStats.Disabled, next.Graphite.Host = 1, true, "h"

	before := *started
	got, changes, err := started.Reloaded(started, next)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&before, started); diff != "" {
		t.Errorf("what the server was started with changed: %s", diff)
	}
	keys := []string{"http_server.port", "client.allowed_origins", "client.subscription_token.enabled", "channel.max_length", "grpc_api.port", "brokers", "graphite.host", "client.connection_limit"}
	if diff := cmp.Diff(keys, changes.Restart); diff != "" {
		t.Errorf("keys that need a restart (-want +got):\n%s", diff)
	}
	keys = []string{
		"client.token.hmac_secret_key", "client.subscription_token.audience", "client.subscribe_to_user_personal_channel.enabled",
		"client.insecure", "channel.without_namespace.presence", "channel.namespaces[0](come) (new)", "channel.namespaces[0](gone) (removed)", "rpc.ping.enabled",
	}
	slices.Sort(keys)
	slices.Sort(changes.Applied)
	if diff := cmp.Diff(keys, changes.Applied); diff != "" {
		t.Errorf("keys that are in force (-want +got):\n%s", diff)
	}
	again, _, _ := started.Reloaded(got, next)
	if _, changes, err := started.Reloaded(again, next); err != nil || len(changes.Applied) > 0 {
		t.Errorf("a reload that changes nothing: %v %v", changes, err)
	}
	moved := *got
	moved.Channel.Namespaces = []Namespace{{Name: "first"}, {Name: "come", ChannelOptions: ChannelOptions{Presence: true}}}
	if _, changes, err := started.Reloaded(got, &moved); err != nil ||
		!slices.Equal(changes.Applied, []string{"channel.namespaces[0](first) (new)", "channel.namespaces[1](come).presence"}) {
		t.Errorf("a namespace that moves: %v %v", changes, err)
	}
	// A limit changes if there was one at start, or one of the rate.
	started.Client.ConnectionRateLimit = 1
	if got, _, err := started.Reloaded(started, next); err != nil || got.Client.ConnectionLimit != 7 {
		t.Errorf("limit %d %v", got.Client.ConnectionLimit, err)
	}
	// Both are valid, but not what is in force of each.
	next.Brokers[0].Enabled, next.Channel.Namespaces[0].BrokerName = true, "late"
	if err := next.Validate(); err != nil {
		t.Fatal(err)
	}
	_, _, err = started.Reloaded(started, next)
	if err == nil || !strings.Contains(err.Error(), "channel.namespaces[0](come).broker_name") || !strings.Contains(err.Error(), "brokers") {
		t.Errorf("%v", err)
	}
}

// TestLostSecrets: a secret that is gone, or replaced without being the previous one, is one whose tokens are lost.
func TestLostSecrets(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	before := func(edit func(*Config)) *Config {
		cfg := DefaultConfig()
		cfg.Client.Token.HMACSecretKey = "old"
		if edit != nil {
			edit(cfg)
		}
		return cfg
	}
	own := func(secret, previous string) func(*Config) {
		return func(cfg *Config) {
			cfg.Client.SubscriptionToken.Enabled = true
			cfg.Client.SubscriptionToken.HMACSecretKey, cfg.Client.SubscriptionToken.HMACPreviousSecretKey = secret, previous
		}
	}
	for name, tt := range map[string]struct {
		before, after *Config
		want          string // the key, and a part of the text
	}{
		"the same": {before(nil), before(nil), ""},
		"empty":    {before(nil), before(func(cfg *Config) { cfg.Client.Token.HMACSecretKey = "" }), "client.token.hmac_secret_key it is empty now"},
		"replaced": {before(nil), before(func(cfg *Config) { cfg.Client.Token.HMACSecretKey = "new" }), "client.token.hmac_secret_key it was replaced"},
		"another": {before(nil), before(func(cfg *Config) {
			cfg.Client.Token.HMACSecretKey, cfg.Client.Token.HMACPreviousSecretKey = "new", "older"
		}), "it was replaced"},
		"rotated": {before(nil), before(func(cfg *Config) {
			cfg.Client.Token.HMACSecretKey, cfg.Client.Token.HMACPreviousSecretKey = "new", "old"
		}), ""},
		"rotated, late": {before(nil), before(func(cfg *Config) {
			cfg.Client.Token.HMACSecretKey, cfg.Client.Token.HMACPreviousSecretKey, cfg.Client.Token.HMACPreviousValidUntil = "new", "old", at.Unix()-1
		}), "hmac_previous_secret_key_valid_until is past"},
		"JWKS instead":        {before(nil), before(func(cfg *Config) { cfg.Client.Token.JWKSPublicEndpoint = "https://a.example" }), "the section has a JWKS now"},
		"JWKS all along":      {before(func(cfg *Config) { cfg.Client.Token.JWKS.Enabled = true }), before(func(cfg *Config) { cfg.Client.Token.HMACSecretKey = "new" }), ""},
		"none before":         {DefaultConfig(), before(nil), ""},
		"subscription tokens": {before(own("a", "")), before(own("b", "")), "client.subscription_token.hmac_secret_key it was replaced, and client.subscription_token.hmac_previous_secret_key"},
		"both sections well":  {before(own("a", "")), before(own("b", "a")), ""},
	} {
		var got string
		for _, lost := range tt.before.LostSecrets(tt.after, at) {
			got += lost.Key + " " + lost.Text
		}
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
