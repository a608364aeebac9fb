package channels

import (
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// Channels that are closed are closed under the names of what shows them: full-state channels and presence maps.
func TestDerivedNames(t *testing.T) {
	r := resolver(t, `{"namespaces": [
		{"name": "score", "subscription_type": "map", "allow_user_limited_channels": true, "allow_subscribe_for_client": true,
			"map": {"mode": "ephemeral", "full_state_channel_prefix": "scores:"}, "map_clients_presence_channel_prefix": "clients:"},
		{"name": "doc", "allow_user_limited_channels": true, "allow_subscribe_for_client": true,
			"map_clients_presence_channel_prefix": "clients:", "map_users_presence_channel_prefix": "users:"},
		{"name": "scores", "allow_subscribe_for_client": true},
		{"name": "clients", "subscription_type": "map_clients", "allow_subscribe_for_client": true, "map": {"mode": "ephemeral"}},
		{"name": "users", "subscription_type": "map_users", "allow_subscribe_for_client": true, "map": {"mode": "ephemeral"}}]}`)
	ann, eve := Facts{User: "ann"}, Facts{User: "eve"}
	for _, tt := range []struct {
		name     string
		ann, eve bool
	}{
		{"scores:score:7", true, true},
		{"scores:$score:7", false, false},
		{"scores:score:7#ann,bob", true, false},
		{"clients:doc:7", true, true},
		{"clients:$doc:7", false, false},
		{"clients:doc:7#ann,bob", true, false},
		{"users:$doc:7", false, false},
		{"users:doc:7#ann,bob", true, false},
		{"clients:$score:7", false, false},
		{"users:$score:7", true, true},     // nothing shows it by this name
		{"scores:$doc:7", true, true},      // likewise
		{"scores:clients:7", true, true},   // likewise
		{"clients:nothing:7", true, true},  // there is no such namespace
		{"clients:", true, true},           // it is about channels without a namespace, which have no such map
		{"score:7#ann,bob", true, false},   // under its own name
		{"clients:clients:", true, true},   // of a map that is about nobody
		{"$clients:doc:7", false, false},   // private itself
		{"scores:scores:$x", true, true},   // not derived twice
		{"clients:scores:$x", true, true},  // likewise
		{"clients:doc:7#eve", false, true}, // the other user
	} {
		for _, of := range []struct {
			facts Facts
			may   bool
		}{{ann, tt.ann}, {eve, tt.eve}} {
			ch, err := r.ForClient(tt.name)
			if err != nil {
				t.Fatal(tt.name, err)
			}
			if d := ch.DecideSubscribe(of.facts, ch.Type, false); (d.Err == nil) != of.may {
				t.Errorf("%s by %s: %v", tt.name, of.facts.User, d.Err)
			}
			if _, ignored, err := r.Requested(tt.name, of.facts); err != nil || (ignored == nil) != of.may {
				t.Errorf("%s in a connect command of %s: %v, %v", tt.name, of.facts.User, ignored, err)
			}
			if d := ch.DecideSubscribe(of.facts, ch.Type, true); d.By != Token {
				t.Errorf("%s with a token: %+v", tt.name, d)
			}
			if e := r.ExplainSubscribe(tt.name, of.facts, false); (e.Reason == "") != of.may {
				t.Errorf("%s by %s is explained by %q, %+v", tt.name, of.facts.User, e.Reason, e.Checks)
			}
		}
	}
}

// A personal channel is its user's, however the namespace lets others in, and whatever is in the user's ID.
func TestPersonalChannelsOfOthers(t *testing.T) {
	for name, text := range map[string]string{
		"open to all clients":  `{"without_namespace": {"allow_subscribe_for_client": true}}`,
		"limited to its users": `{"without_namespace": {"allow_user_limited_channels": true}}`,
		"decided by the backend": `{"without_namespace": {"subscribe_proxy_enabled": true},
			"proxy": {"subscribe": {"endpoint": "http://localhost:1"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewResolver(channelConfig(t, text), config.PersonalChannel{Enabled: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, user := range []string{"ann", "eve,ann", "ann#eve", "cn=Ann,ou=eve", "evening"} {
				name := r.PersonalChannel("", user)
				for _, other := range []string{"eve", "ann", "", "ou=eve"} {
					if other == user {
						continue
					}
					if d := subscribing(t, r, name, Facts{User: other}); d.Err == nil {
						t.Errorf("%s by %q: %+v", name, other, d)
					}
					if _, ignored, err := r.Requested(name, Facts{User: other}); err != nil || ignored == nil {
						t.Errorf("%s in a connect command of %q: %v, %v", name, other, ignored, err)
					}
				}
				if d := subscribing(t, r, name, Facts{User: "eve", Insecure: true}); d.Err != nil {
					t.Errorf("%s with client.insecure: %v", name, d.Err)
				}
			}
			if d := subscribing(t, r, "#ann", Facts{User: "ann"}); d.Err != nil {
				t.Errorf("the own one: %v", d.Err)
			}
			if d := subscribing(t, r, "room#ann", Facts{User: "ann"}); d.Err != nil {
				t.Errorf("another channel: %v", d.Err)
			}
		})
	}
	r := resolver(t, `{"without_namespace": {"allow_subscribe_for_client": true}}`)
	if d := subscribing(t, r, "#ann", Facts{User: "eve"}); d.Err != nil {
		t.Errorf("without personal channels: %v", d.Err)
	}
}

func subscribing(t *testing.T, r *Resolver, name string, f Facts) Decision {
	t.Helper()
	ch, err := r.ForClient(name)
	if err != nil {
		t.Fatal(name, err)
	}
	return ch.DecideSubscribe(f, ch.Type, false)
}

// A connect command cannot ask for channels on which the backend decides.
func TestRequestedWithProxies(t *testing.T) {
	r := resolver(t, `{"without_namespace": {"allow_subscribe_for_client": true, "subscribe_stream_proxy_enabled": true},
		"namespaces": [{"name": "ns", "allow_subscribe_for_client": true, "subscribe_proxy_enabled": true}]}`)
	for _, name := range []string{"a", "ns:a"} {
		if _, ignored, err := r.Requested(name, Facts{User: "ann"}); err != nil || ignored == nil {
			t.Errorf("%s: %v, %v", name, ignored, err)
		}
	}
}
