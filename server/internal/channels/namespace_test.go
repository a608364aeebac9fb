package channels

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// channelConfig loads the section "channel" from JSON, with its defaults.
func channelConfig(t testing.TB, text string) config.Channel {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte(`{"channel": `+text+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, w, err := config.Load(config.Options{File: file, RequireFile: true})
	if err != nil || len(w.UnknownKeys) > 0 {
		t.Fatal(err, w.UnknownKeys)
	}
	return c.Channel
}

func resolver(t testing.TB, text string) *Resolver {
	t.Helper()
	r, err := NewResolver(channelConfig(t, text), config.PersonalChannel{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// resolve returns a channel of the namespace "ns" with the given options.
func resolve(t testing.TB, options, name string) Channel {
	t.Helper()
	ch, ok := resolver(t, `{"namespaces": [{"name": "ns", `+options+`}]}`).Resolve(name)
	if !ok {
		t.Fatalf("%s is unknown", name)
	}
	return ch
}

func TestResolve(t *testing.T) {
	const namespaces = `"namespaces": [{"name": "chat"}, {"name": "a.b"}]`
	markers := `{"private_prefix": "priv/", "namespace_boundary": "::", "user_boundary": "##", "user_separator": "||", ` + namespaces + `}`
	for _, tt := range []struct{ cfg, channel, namespace, rest string }{
		{"", "news", "", "news"},
		{"", "$news", "", "$news"},
		{"", "chat:a", "chat", "a"},
		{"", "chat:a:b", "chat", "a:b"},
		{"", "$chat:a", "chat", "a"},
		{"", "$$chat:a", "unknown", ""},
		{"", ":a", "", "a"},
		{"", "$:a", "", "a"},
		{"", "chat:", "chat", ""},
		{"", "a#b:c", "unknown", ""},
		{"", "Chat:a", "unknown", ""},
		{"", "a.b:c", "a.b", "c"},
		{"", "", "", ""},
		{markers, "chat::a", "chat", "a"},
		{markers, "chat:a", "", "chat:a"},
		{markers, "chat:::a", "chat", ":a"},
		{markers, "priv/chat::a", "chat", "a"},
		{markers, "priv/a", "", "priv/a"},
		{markers, "$chat::a", "unknown", ""},
	} {
		cfg := tt.cfg
		if cfg == "" {
			cfg = `{` + namespaces + `}`
		}
		ch, ok := resolver(t, cfg).Resolve(tt.channel)
		if !ok {
			if tt.namespace != "unknown" {
				t.Errorf("%q is unknown", tt.channel)
			}
			continue
		}
		if ch.Options.Name != tt.namespace || ch.Rest != tt.rest || ch.Name != tt.channel {
			t.Errorf("%q: namespace %q rest %q, want %q %q", tt.channel, ch.Options.Name, ch.Rest, tt.namespace, tt.rest)
		}
	}
}

func TestEffectiveOptions(t *testing.T) {
	r := resolver(t, `{"publication_data_format": "json", "history_meta_ttl": "10h",
		"namespaces": [{"name": "aa", "publication_data_format": "binary", "history_meta_ttl": "1h", "subscription_type": "map"}]}`)
	ch, _ := r.Resolve("x")
	if ch.PublicationDataFormat != "json" || ch.HistoryMetaTTL != 10*time.Hour || ch.Type != Stream {
		t.Errorf("%+v", ch.Options)
	}
	ch, _ = r.Resolve("aa:x")
	if ch.PublicationDataFormat != "binary" || ch.HistoryMetaTTL != time.Hour || ch.Type != Map {
		t.Errorf("%+v", ch.Options)
	}
}

func TestBadRegex(t *testing.T) {
	_, err := NewResolver(channelConfig(t, `{"namespaces": [{"name": "bb"}, {"name": "cc", "channel_regex": "("}]}`), config.PersonalChannel{})
	if err == nil || !strings.Contains(err.Error(), "channel.namespaces[1](cc).channel_regex") {
		t.Error(err)
	}
}

func TestNameChecks(t *testing.T) {
	r := resolver(t, `{"max_length": 8, "namespaces": [{"name": "re", "channel_regex": "^[é0-9]+$"}, {"name": "un", "channel_regex": "b"}]}`)
	for _, tt := range []struct {
		name          string
		client, named error // of ForClient and of Named
	}{
		{"", protocol.DisconnectBadRequest, nil},
		{"a\x00\x7f", nil, nil},
		{"12345678", nil, nil},
		{"123456789", protocol.ErrorBadRequest, ErrTooLong},
		{"no:1234567", protocol.ErrorBadRequest, ErrTooLong}, // row 2 before 5
		{"no:1", protocol.ErrorUnknownChannel, protocol.ErrorUnknownChannel},
		{"no:é", protocol.ErrorUnknownChannel, protocol.ErrorUnknownChannel},
		{"é", protocol.ErrorBadRequest, nil},
		{"re:é1", nil, nil},
		{"re:a", protocol.ErrorBadRequest, nil},
		{"re:", protocol.ErrorBadRequest, nil},
		{"$re:1", nil, nil},
		{"un:abc", nil, nil},
		{"un:ac", protocol.ErrorBadRequest, nil},
	} {
		if _, err := r.ForClient(tt.name); !errors.Is(err, tt.client) {
			t.Errorf("%q: %v, want %v", tt.name, err, tt.client)
		}
		if _, err := r.Named(tt.name); !errors.Is(err, tt.named) {
			t.Errorf("named %q: %v, want %v", tt.name, err, tt.named)
		}
	}
}

func TestUserLimited(t *testing.T) {
	const on = `{"without_namespace": {"allow_user_limited_channels": true}, "namespaces": [{"name": "ns", "allow_user_limited_channels": true}, {"name": "off"}]}`
	const multi = `{"user_boundary": "##", "user_separator": "||", "without_namespace": {"allow_user_limited_channels": true}}`
	for _, tt := range []struct {
		cfg, channel, user string
		limited, listed    bool
	}{
		{on, "room#42", "42", true, true},
		{on, "room#42", "4", true, false},
		{on, "room#42,43", "43", true, true},
		{on, "room#42, 43", "43", true, false},
		{on, "room#42, 43", " 43", true, true},
		{on, "a#1#2", "1", true, false},
		{on, "a#1#2", "2", true, true},
		{on, "room#", "", true, false},
		{on, "room#,42", "", true, false},
		{on, "room#42", "", true, false},
		{on, "ns:#42", "42", true, true},
		{on, "off:#42", "42", false, false},
		{on, "room", "room", false, false},
		{multi, "room##1||2", "2", true, true},
		{multi, "room#1", "1", false, false},
		{multi, "room###1", "#1", true, true}, // split from the left
		{multi, "room##1|2", "1", true, false},
	} {
		ch, ok := resolver(t, tt.cfg).Resolve(tt.channel)
		if !ok {
			t.Fatal(tt.channel)
		}
		if got := ch.UserLimited(); got != tt.limited || got && ch.ListsUser(tt.user) != tt.listed {
			t.Errorf("%q for %q: limited %v, listed %v", tt.channel, tt.user, got, ch.ListsUser(tt.user))
		}
	}
	if _, ok := resolver(t, on).Resolve("#ns:42"); ok {
		t.Error("#ns:42 is known")
	}
}

func TestPersonalChannel(t *testing.T) {
	r := resolver(t, `{"namespaces": [{"name": "ns"}]}`)
	if got := r.PersonalChannel("", "42") + " " + r.PersonalChannel("ns", "42"); got != "#42 ns:#42" {
		t.Error(got)
	}
}

// FuzzResolve compares with the same algorithm, written with
// strings.Split, for any markers.
func FuzzResolve(f *testing.F) {
	f.Add("$", ":", "#", ",", "$chat:a#1,2", "2")
	f.Add("aa", "aa", "##", "#", "aaachat", "")
	f.Fuzz(func(t *testing.T, prefix, boundary, userBoundary, separator, name, user string) {
		if prefix == "" || boundary == "" || userBoundary == "" || separator == "" {
			return // configuration restores their defaults
		}
		cfg := config.Channel{PrivatePrefix: prefix, NamespaceBoundary: boundary, UserBoundary: userBoundary, UserSeparator: separator,
			WithoutNamespace: config.ChannelOptions{AllowUserLimitedChannels: true},
			Namespaces:       []config.Namespace{{Name: "chat", ChannelOptions: config.ChannelOptions{AllowUserLimitedChannels: true}}}}
		r, err := NewResolver(cfg, config.PersonalChannel{})
		if err != nil {
			t.Fatal(err)
		}
		ch, ok := r.Resolve(name)
		parts := strings.SplitN(strings.TrimPrefix(name, prefix), boundary, 2)
		namespace, rest := "", name
		if len(parts) == 2 {
			namespace, rest = parts[0], parts[1]
		}
		if ok != (namespace == "" || namespace == "chat") {
			t.Fatalf("%q: known %v", name, ok)
		}
		if !ok {
			return
		}
		if ch.Options.Name != namespace || ch.Rest != rest {
			t.Errorf("%q: %q %q, want %q %q", name, ch.Options.Name, ch.Rest, namespace, rest)
		}
		lists := strings.Split(name, userBoundary)
		if ch.UserLimited() != (len(lists) > 1) {
			t.Errorf("%q: limited %v", name, ch.UserLimited())
		}
		if ch.UserLimited() && ch.ListsUser(user) != (user != "" && slices.Contains(strings.Split(lists[len(lists)-1], separator), user)) {
			t.Errorf("%q lists %q: %v", name, user, ch.ListsUser(user))
		}
	})
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := resolver(t, `{"namespaces": [{"name": "chat", "allow_user_limited_channels": true, "allow_publish_for_client": true}]}`)
	data := []byte(`{}`)
	if n := testing.AllocsPerRun(100, func() {
		ch, err := r.ForClient("chat:room#1,2,42")
		if err != nil {
			t.Fatal(err)
		}
		if v := ch.DecideSubscribe(Facts{User: "42"}, Stream, false); v.Err != nil {
			t.Fatal(v.Err)
		}
		if v := ch.DecidePublish(Facts{User: "42"}, data); v.Err != nil {
			t.Fatal(v.Err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResolve(b *testing.B) {
	r := resolver(b, `{"namespaces": [{"name": "chat"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.ForClient("chat:index"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNamed(b *testing.B) {
	r := resolver(b, `{"namespaces": [{"name": "chat"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Named("c12345"); err != nil {
			b.Fatal(err)
		}
	}
}

// A wildcard gets what could be subscribed to by name.
func TestCovers(t *testing.T) {
	r := resolver(t, `{"max_length": 20, "without_namespace": {"allow_user_limited_channels": true},
		"namespaces": [{"name": "chat"}, {"name": "closed"}, {"name": "odd", "channel_regex": "^[a-z.*]+$"}]}`)
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.*", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a.b#1", false},
		{"$a.>", "$a.b", false},
		{"a.>", "$a.b", false},
		{"a.>", "a.b:c", false}, // of an unknown namespace
		{"closed:a.>", "chat:a.b", false},
		{"a.>", "closed:a.b", false},
		{"chat:a.>", "chat:a.b", true},
		{"chat:a.>", "chat:a.b#1", true}, // there it means nothing
		{"odd:a.*", "odd:a.b", true},
		{"odd:a.*", "odd:a.9", false},
		{"a.*", "a.ü", false},
		{"a.*", "a.0123456789012345678", false},
		{"none:*", "none:a", false},
	} {
		if got := r.Covers(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.pattern, tt.name, got)
		}
	}
}
