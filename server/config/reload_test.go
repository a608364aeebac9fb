package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/server/config/engines"
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
	next.GRPCAPI.Port, next.UsageStats.Disabled, next.Admin.Password = 1, true, "p"

	before := *started
	got, restart, err := started.Reloaded(next)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&before, started); diff != "" {
		t.Errorf("what the server was started with changed: %s", diff)
	}
	keys := []string{"http_server.port", "client.allowed_origins", "client.subscription_token.enabled", "channel.max_length", "grpc_api.port", "brokers", "client.connection_limit"}
	if diff := cmp.Diff(keys, restart); diff != "" {
		t.Errorf("keys that need a restart (-want +got):\n%s", diff)
	}
	// A limit changes if there was one at start, or one of the rate.
	started.Client.ConnectionRateLimit = 1
	if got, _, err := started.Reloaded(next); err != nil || got.Client.ConnectionLimit != 7 {
		t.Errorf("limit %d %v", got.Client.ConnectionLimit, err)
	}
	// Both are valid, but not what is in force of each.
	next.Brokers[0].Enabled, next.Channel.Namespaces[0].BrokerName = true, "late"
	if err := next.Validate(); err != nil {
		t.Fatal(err)
	}
	_, _, err = started.Reloaded(next)
	if err == nil || !strings.Contains(err.Error(), "channel.namespaces[0](come).broker_name") || !strings.Contains(err.Error(), "brokers") {
		t.Errorf("%v", err)
	}
}
