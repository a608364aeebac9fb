package channels

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

var (
	denied103 = Decision{Err: protocol.ErrorPermissionDenied}
	user      = Facts{User: "42"}
	anonymous = Facts{}
	insecure  = Facts{Insecure: true}
	capable   = Facts{User: "42", Rights: channel.RightSubscribe}
)

// same compares decisions: of errors, what clients get.
func same(got, want Decision) bool {
	return got.By == want.By && got.Source == want.Source && (got.Err == nil) == (want.Err == nil) && errors.Is(got.Err, want.Err)
}

// TestTruthTable has every combination of flags
// and facts, for every operation that has the flags.
func TestTruthTable(t *testing.T) {
	// want has, per row of the table, the answers for auth subscribed, auth not
	// subscribed, anonymous subscribed, anonymous not subscribed.
	want := func(c, s, a bool) [4]bool {
		switch {
		case !c && !s:
			return [4]bool{}
		case !c && s && !a:
			return [4]bool{true, false, false, false}
		case !c && s && a:
			return [4]bool{true, false, true, false}
		case c && !a:
			return [4]bool{true, true, false, false}
		}
		return [4]bool{true, true, true, true}
	}
	facts := [4]Facts{{User: "42", Subscribed: true}, {User: "42"}, {Subscribed: true}, {}}
	for i := range 8 {
		c, s, a := i&1 != 0, i&2 != 0, i&4 != 0
		o := config.ChannelOptions{Presence: true, HistorySize: 1, HistoryTTL: 1,
			AllowSubscribeForClient: c, AllowSubscribeForAnonymous: a,
			AllowPublishForClient: c, AllowPublishForSubscriber: s, AllowPublishForAnonymous: a,
			AllowPresenceForClient: c, AllowPresenceForSubscriber: s, AllowPresenceForAnonymous: a,
			AllowHistoryForClient: c, AllowHistoryForSubscriber: s, AllowHistoryForAnonymous: a}
		r, err := NewResolver(config.Channel{MaxLength: 255, PrivatePrefix: "$", UserBoundary: "#", WithoutNamespace: o}, config.PersonalChannel{})
		if err != nil {
			t.Fatal(err)
		}
		ch, _ := r.Resolve("news")
		for j, f := range facts {
			for _, in := range []bool{false, true} {
				f.Insecure = in
				ok := want(c, s, a)[j] || in
				for name, err := range map[string]error{
					"publish": ch.DecidePublish(f, []byte("1")).Err, "presence": ch.CheckPresence(f), "history": ch.CheckHistory(f),
				} {
					if (err == nil) != ok || err != nil && !errors.Is(err, protocol.ErrorPermissionDenied) {
						t.Errorf("%s C %v S %v A %v, %+v: %v", name, c, s, a, f, err)
					}
				}
				mayOpen := want(c, false, a)[j] || in
				if v := ch.DecideSubscribe(f, Stream, false); (v.Err == nil) != mayOpen {
					t.Errorf("subscribe C %v A %v, %+v: %v", c, a, f, v)
				}
				if _, ignored, err := r.Requested("news", f); (ignored == nil) != mayOpen || err != nil {
					t.Errorf("connect C %v A %v, %+v: %v %v", c, a, f, ignored, err)
				}
			}
		}
	}
}

func TestDecideSubscribe(t *testing.T) {
	byProxy, byStream := `"subscribe_proxy_enabled": true`, `"subscribe_stream_proxy_enabled": true`
	limited, client := `"allow_user_limited_channels": true`, `"allow_subscribe_for_client": true`
	for _, tt := range []struct {
		options, channel string
		facts            Facts
		asked            SubscriptionType
		token            bool
		want             Decision
	}{
		// 1: the type comes first.
		{client, "ns:a", user, Map, true, denied103},
		{client, "ns:a", insecure, MapUsers, false, denied103},
		{client, "ns:a", user, SharedPoll, false, Decision{Err: protocol.ErrorNotAvailable}},
		{`"subscription_type": "shared_poll"`, "ns:a", user, Stream, true, Decision{Err: protocol.ErrorBadRequest}},
		{`"subscription_type": "map"`, "ns:a", user, Stream, true, denied103},
		{`"subscription_type": "map", ` + client, "ns:a", user, Map, false, Decision{Source: SourceClientAllowed}},
		{`"subscription_type": "stream", ` + client, "ns:a", user, Stream, false, Decision{Source: SourceClientAllowed}},
		{client, "ns:a", user, 77, false, denied103},
		{client, "ns:a", user, -1, false, denied103},
		// 2, 3: private prefix and token.
		{client, "$ns:a", insecure, Stream, false, denied103},
		{byProxy, "$ns:a", user, Stream, false, denied103},
		{client, "$ns:a", user, Stream, true, Decision{By: Token}},
		{byProxy + "," + client, "ns:a", insecure, Stream, true, Decision{By: Token}},
		{limited, "ns:a#7", user, Stream, true, Decision{By: Token}},
		// 4: user-limited.
		{limited + "," + byProxy, "ns:a#42", user, Stream, false, Decision{Source: SourceUserLimited}},
		{limited, "$ns:a#42", user, Stream, false, denied103},
		{limited, "ns:a#", anonymous, Stream, false, denied103},
		{limited, "ns:a#1,", anonymous, Stream, false, denied103},
		{limited, "ns:a#,1", anonymous, Stream, false, denied103},
		{limited + "," + byProxy, "ns:a#7", user, Stream, false, denied103},
		{limited + "," + byStream, "ns:a#7", user, Stream, false, denied103},
		{limited + "," + client, "ns:a#7", user, Stream, false, denied103},
		{limited + "," + client, "ns:a#7", Facts{User: "42", Insecure: true}, Stream, false, Decision{Source: SourceInsecure}},
		{client, "ns:a#7", user, Stream, false, Decision{Source: SourceClientAllowed}},
		{limited + "," + client, "ns:a", user, Stream, false, Decision{Source: SourceClientAllowed}},
		// 5, 6: proxies decide alone, also in insecure mode.
		{byProxy + "," + client, "ns:a", insecure, Stream, false, Decision{By: SubscribeProxy}},
		{byStream + "," + client, "ns:a", insecure, Stream, false, Decision{By: StreamProxy}},
		{limited + "," + byProxy, "ns:a", user, Stream, false, Decision{By: SubscribeProxy}},
		// 7, 8, 9.
		{client, "ns:a", anonymous, Stream, false, denied103},
		{client, "ns:a", insecure, Stream, false, Decision{Source: SourceInsecure}},
		{`"presence": true`, "ns:a", user, Stream, false, denied103},
		// Capabilities: before proxies, but not for private channels, and not if something else grants it.
		{`"presence": true`, "ns:a", capable, Stream, false, Decision{Source: SourceCapability}},
		{byProxy + "," + client, "ns:a", capable, Stream, false, Decision{Source: SourceCapability}},
		{byStream, "ns:a", capable, Stream, false, Decision{Source: SourceCapability}},
		{client, "ns:a", capable, Stream, false, Decision{Source: SourceClientAllowed}},
		{limited, "ns:a#7", capable, Stream, false, Decision{Source: SourceCapability}},
		{limited, "ns:a#42", capable, Stream, false, Decision{Source: SourceUserLimited}},
		{client, "ns:a", capable, Map, false, denied103},
		{client, "$ns:a", capable, Stream, false, denied103},
		{client, "ns:a", capable, Stream, true, Decision{By: Token}},
	} {
		if got := resolve(t, tt.options, tt.channel).DecideSubscribe(tt.facts, tt.asked, tt.token); !same(got, tt.want) {
			t.Errorf("%s %s %+v type %d token %v: %+v, want %+v", tt.options, tt.channel, tt.facts, tt.asked, tt.token, got, tt.want)
		}
	}
}

func TestRequested(t *testing.T) {
	limited, client := `"allow_user_limited_channels": true`, `"allow_subscribe_for_client": true`
	for _, tt := range []struct {
		options, channel string
		facts            Facts
		want             bool
		err              error
	}{
		{client, "no:a", insecure, false, protocol.DisconnectBadRequest},
		{client, "", insecure, false, nil},
		{client, "ns:é", insecure, false, nil},
		{client + `, "channel_regex": "b"`, "ns:a", user, false, nil},
		{client, "$ns:a", insecure, false, nil},
		{client + `, "subscribe_proxy_enabled": true`, "ns:a", insecure, false, nil},
		{client + `, "subscribe_stream_proxy_enabled": true`, "ns:a", user, false, nil},
		{client + `, "subscription_type": "map"`, "ns:a", user, true, nil},
		{limited, "ns:#42", user, true, nil},
		{limited, "ns:#", anonymous, false, nil},
		{limited + "," + client, "ns:#7", user, false, nil},
		{limited + "," + client, "ns:#7", insecure, true, nil},
		{client, "ns:" + strings.Repeat("a", 300), user, false, nil},
		{`"presence": true`, "ns:a", user, false, nil},
		{`"presence": true`, "ns:a", capable, true, nil},
		{client + `, "subscribe_proxy_enabled": true`, "ns:a", capable, true, nil},
		{client, "$ns:a", capable, false, nil},
	} {
		r := resolver(t, `{"namespaces": [{"name": "ns", `+tt.options+`}]}`)
		_, ignored, err := r.Requested(tt.channel, tt.facts)
		if granted := ignored == nil && err == nil; granted != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s %q %+v: %v %v, want %v %v", tt.options, tt.channel, tt.facts, ignored, err, tt.want, tt.err)
		}
	}
}

// Values of maps have the format of publications. A value may be missing.
func TestDecideMapChange(t *testing.T) {
	const open = `"subscription_type": "map", "map": {"mode": "ephemeral", "allow_publish_for_client": true, "allow_remove_for_client": true}`
	for _, tt := range []struct {
		options, data string
		removes, may  bool
	}{
		{open, "{}", false, true}, {open, "", false, true}, {open, "", true, true}, {open, "\xff", false, false},
		{open + `, "publication_data_format": "binary"`, "\xff", false, true},
		{open + `, "publication_data_format": "json_object"`, "1", false, false},
	} {
		if d := resolve(t, tt.options, "ns:a").DecideMapChange(user, tt.removes, []byte(tt.data)); (d.Err == nil) != tt.may {
			t.Errorf("%s %q: %v", tt.options, tt.data, d.Err)
		}
	}
}

func TestDecidePublish(t *testing.T) {
	client, bad := `"allow_publish_for_client": true`, Decision{Err: protocol.ErrorBadRequest}
	for _, tt := range []struct {
		options, data string
		facts         Facts
		want          Decision
	}{
		{client, "", user, bad},
		{`"publish_proxy_enabled": true`, "", insecure, bad},
		{`"publish_proxy_enabled": true, ` + client, "1", insecure, Decision{By: PublishProxy}},
		{`"subscribe_stream_proxy_enabled": true, ` + client, "1", insecure, Decision{Err: protocol.ErrorNotAvailable}},
		{`"subscribe_stream_proxy_enabled": true, "subscribe_stream_proxy_bidirectional": true`, "1", user, Decision{By: StreamProxy}},
		{client, "1", user, Decision{}},
		{client, "\xff", user, bad}, // subscribers with JSON connections could not get it
		{client, "{", user, bad},
		{client, "\xff", insecure, Decision{}},
		{client + `, "publication_data_format": "binary"`, "\xff", user, Decision{}},
		{client, "1", anonymous, denied103},
		{`"presence": true`, "1", user, denied103},
		{`"presence": true`, "1", insecure, Decision{}},
	} {
		if got := resolve(t, tt.options, "$ns:a#7").DecidePublish(tt.facts, []byte(tt.data)); !same(got, tt.want) {
			t.Errorf("%s %q %+v: %+v, want %+v", tt.options, tt.data, tt.facts, got, tt.want)
		}
	}
}

func TestPresenceAndHistoryOff(t *testing.T) {
	all := `"allow_presence_for_client": true, "allow_history_for_client": true`
	for _, options := range []string{all, all + `, "history_size": 1`, all + `, "history_ttl": "1s"`} {
		ch := resolve(t, options, "ns:a")
		for _, f := range []Facts{user, insecure} {
			if err := ch.CheckPresence(f); !errors.Is(err, protocol.ErrorNotAvailable) {
				t.Errorf("presence: %v", err)
			}
			if err := ch.CheckHistory(f); !errors.Is(err, protocol.ErrorNotAvailable) {
				t.Errorf("%s: history: %v", options, err)
			}
		}
	}
}

func TestGrant(t *testing.T) {
	all := Wishes{true, true, true}
	for _, tt := range []struct {
		options string
		facts   Facts
		wishes  Wishes
		want    Wishes
	}{
		{`"presence": true`, user, all, Wishes{}},
		{`"allow_positioning": true`, anonymous, all, Wishes{Positioned: true}},
		{`"allow_recovery": true`, anonymous, all, Wishes{Recoverable: true}},
		{`"allow_recovery": true, "allow_positioning": true, "join_leave": true, "allow_presence_for_subscriber": true`, user, Wishes{}, Wishes{}},
		{`"allow_history_for_client": true`, user, all, Wishes{true, true, false}},
		{`"allow_history_for_subscriber": true`, user, all, Wishes{true, true, false}},
		{`"allow_history_for_subscriber": true`, anonymous, all, Wishes{}},
		{`"allow_history_for_subscriber": true, "allow_history_for_anonymous": true`, anonymous, all, Wishes{true, true, false}},
		{`"allow_presence_for_subscriber": true`, user, all, Wishes{}},
		{`"allow_presence_for_subscriber": true, "join_leave": true`, user, all, Wishes{JoinLeave: true}},
		{`"allow_presence_for_client": true, "join_leave": true`, anonymous, all, Wishes{}},
		{`"join_leave": true`, insecure, all, all},
		{`"presence": true`, insecure, all, Wishes{true, true, false}},
	} {
		if got := resolve(t, tt.options, "ns:a").Grant(tt.facts, tt.wishes); got != tt.want {
			t.Errorf("%s %+v: %+v, want %+v", tt.options, tt.facts, got, tt.want)
		}
	}
}

func TestValidData(t *testing.T) {
	for data, want := range map[string]string{ // formats that take it
		"": "binary", " ": ",binary", "x": ",binary", "{": ",binary", "1": ",json,binary", `"{"`: ",json,binary", "[]": ",json,binary",
		"{}": ",json,json_object,binary", " \t\r\n{\"a\": 1} ": ",json,json_object,binary", "{} {}": ",binary", "\"\xff\"": ",binary", "{}\x00": ",binary",
	} {
		for _, format := range []string{"", "json", "json_object", "binary"} {
			o := Options{ChannelOptions: config.ChannelOptions{PublicationDataFormat: format}}
			ok := false
			for f := range strings.SplitSeq(want, ",") {
				ok = ok || f == format && (format != "" || strings.HasPrefix(want, ","))
			}
			if o.ValidData([]byte(data)) != ok {
				t.Errorf("%q as %q: %v", data, format, !ok)
			}
		}
	}
}

func FuzzValidData(f *testing.F) {
	f.Add([]byte(`{"a": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var object map[string]any
		isJSON := json.Valid(data) && utf8.Valid(data)
		isObject := isJSON && json.Unmarshal(data, &object) == nil && object != nil
		for format, want := range map[string]bool{"": len(data) > 0, "json": isJSON, "json_object": isObject, "binary": true} {
			o := Options{ChannelOptions: config.ChannelOptions{PublicationDataFormat: format}}
			if o.ValidData(data) != want {
				t.Errorf("%q as %q: %v", data, format, !want)
			}
		}
	})
}

func TestRPC(t *testing.T) {
	proxied := config.RPC{NamespaceBoundary: ":", Namespaces: []config.RPCNamespace{
		{Name: "on", RPCOptions: config.RPCOptions{ProxyEnabled: true, ProxyName: "p1"}}, {Name: "off"}}}
	ping := config.RPC{}
	ping.Ping.Enabled, ping.Ping.Method = true, "ping"
	both := proxied
	both.Ping = ping.Ping
	for _, tt := range []struct {
		cfg    config.RPC
		method string
		ping   bool
		proxy  string
		err    error
	}{
		{config.RPC{}, "x", false, "", protocol.ErrorNotAvailable},
		{config.RPC{}, "", false, "", protocol.ErrorNotAvailable},
		{ping, "ping", true, "", nil},
		{ping, "x", false, "", protocol.ErrorMethodNotFound},
		{proxied, "ping", false, "", protocol.ErrorNotAvailable},
		{proxied, "on:x", false, "p1", nil},
		{proxied, "off:x", false, "", protocol.ErrorNotAvailable},
		{proxied, "no:x", false, "", protocol.ErrorMethodNotFound},
		{proxied, ":x", false, "", protocol.ErrorNotAvailable},
		{both, "ping", true, "", nil},
		{both, "on:x:y", false, "p1", nil},
	} {
		ping, proxy, err := NewRPC(tt.cfg).Decide(tt.method)
		if ping != tt.ping || proxy != tt.proxy || !errors.Is(err, tt.err) {
			t.Errorf("%q: %v %q %v", tt.method, ping, proxy, err)
		}
	}
}

// Every refusal says why, and names a key that exists and would allow it.
func TestReasons(t *testing.T) {
	subscribed, presence, none := Facts{User: "42", Subscribed: true}, `"presence": true`, `"join_leave": false`
	subscribe := func(c Channel, f Facts) error { return c.DecideSubscribe(f, Stream, false).Err }
	publish := func(c Channel, f Facts) error { return c.DecidePublish(f, []byte("1")).Err }
	command := func(c Channel, f Facts) error {
		_, err := (&Resolver{naming: c.resolver.naming, options: map[string]*Options{"ns": c.Options}}).ForClient(c.Name)
		return err
	}
	for _, tt := range []struct {
		options, channel string
		facts            Facts
		decide           func(Channel, Facts) error
		key, text        string
	}{
		{presence, "ns:a", subscribed, Channel.CheckPresence, "allow_presence_for_subscriber", "allow_presence_for_subscriber is off in namespace ns"},
		{presence, "ns:a", user, Channel.CheckPresence, "allow_presence_for_client", "allow_presence_for_client is off in namespace ns"},
		{presence + `, "allow_presence_for_subscriber": true`, "ns:a", user, Channel.CheckPresence, "allow_presence_for_client",
			"allow_presence_for_client is off in namespace ns, and the client is not subscribed to the channel"},
		{presence + `, "allow_presence_for_subscriber": true`, "ns:a", Facts{Subscribed: true}, Channel.CheckPresence, "allow_presence_for_anonymous",
			"allow_presence_for_anonymous is off in namespace ns, and the client has no user"},
		{none, "ns:a", user, Channel.CheckPresence, "presence", "presence is off in namespace ns"},
		{`"history_ttl": "1s"`, "ns:a", user, Channel.CheckHistory, "history_size", "history_size is 0 in namespace ns"},
		{`"history_size": 1`, "ns:a", user, Channel.CheckHistory, "history_ttl", "history_ttl is 0 in namespace ns"},
		{`"history_size": 1, "history_ttl": "1s"`, "ns:a", subscribed, Channel.CheckHistory, "allow_history_for_subscriber", "allow_history_for_subscriber is off in namespace ns"},
		{none, "ns:a", subscribed, publish, "allow_publish_for_subscriber", "allow_publish_for_subscriber is off in namespace ns"},
		{`"publication_data_format": "json_object"`, "ns:a", user, publish, "publication_data_format",
			"publication_data_format is json_object in namespace ns, and the data is something else"},
		{`"subscribe_stream_proxy_enabled": true`, "ns:a", user, publish, "subscribe_stream_proxy_bidirectional", "subscribe_stream_proxy_bidirectional is off in namespace ns"},
		{none, "ns:a", user, subscribe, "allow_subscribe_for_client", "allow_subscribe_for_client is off in namespace ns, and the client has no subscription token"},
		{`"allow_subscribe_for_client": true`, "ns:a", anonymous, subscribe, "allow_subscribe_for_anonymous", "allow_subscribe_for_anonymous is off in namespace ns, and the client has no user"},
		{none, "$ns:a", user, subscribe, "channel.private_prefix", "the channel's name begins with channel.private_prefix, so a subscription token is needed"},
		{`"allow_user_limited_channels": true`, "ns:a#7", user, subscribe, "allow_user_limited_channels",
			"allow_user_limited_channels is on in namespace ns, and the channel's name lists the users that may subscribe, without this one"},
		{`"subscription_type": "map"`, "ns:a", user, subscribe, "subscription_type", "subscription_type is map in namespace ns, and the client asked for another type"},
		{none, "ns:é", user, command, "channel_regex", "channel_regex is not set in namespace ns, and then the channel's name must be ASCII"},
		{`"channel_regex": "b"`, "ns:a", user, command, "channel_regex", "channel_regex is set in namespace ns, and the channel's name does not match it"},
	} {
		key, text := refusal.Explain(tt.decide(resolve(t, tt.options, tt.channel), tt.facts))
		if !strings.HasPrefix(tt.key, "channel.") {
			tt.key = "channel.namespaces[ns]." + tt.key
		}
		if key != tt.key || text != tt.text {
			t.Errorf("%s %s %+v:\n%s: %s, want\n%s: %s", tt.options, tt.channel, tt.facts, key, text, tt.key, tt.text)
		}
		keytest.Check(t, key)
	}
	plain, _ := resolver(t, `{}`).Resolve("a")
	for err, want := range map[error]string{
		plain.CheckPresence(user): "channel.without_namespace.presence", errUnknown: "channel.namespaces", tooLong(8): "channel.max_length",
		errNoRPC: "rpc.without_namespace.proxy_enabled", errRPCOff: "rpc.namespaces[].proxy_enabled", errNoMethod: "rpc.namespaces",
	} {
		if key, _ := refusal.Explain(err); key != want {
			t.Errorf("%v: %s, want %s", err, key, want)
		}
		keytest.Check(t, want)
	}
}
