package channels

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/keytest"
)

// For any options, names and clients, an explanation has the decision that a command gets, and its checks
// lead there: the last one that holds decides, and if none does, it is a refusal whose key was checked.
func TestExplanationsAgree(t *testing.T) {
	keys := make(map[string]bool)
	coin := func() bool { return rand.IntN(2) == 0 }
	for range 5_000 {
		o := config.ChannelOptions{
			SubscriptionType: []string{"", "map", "shared_poll"}[rand.IntN(3)], AllowUserLimitedChannels: coin(),
			AllowSubscribeForClient: coin(), AllowSubscribeForAnonymous: coin(), SubscribeProxyEnabled: rand.IntN(4) == 0,
			SubscribeStreamProxyEnabled: rand.IntN(4) == 0, ChannelRegex: []string{"", "^[a-z#0-9,]*$"}[rand.IntN(2)],
		}
		r, err := NewResolver(config.Channel{MaxLength: 20, PrivatePrefix: "$", UserBoundary: "#", UserSeparator: ",", NamespaceBoundary: ":",
			WithoutNamespace: o, Namespaces: []config.Namespace{{Name: "ns", ChannelOptions: o}}}, config.PersonalChannel{Enabled: coin(), Namespace: []string{"", "ns"}[rand.IntN(2)]})
		if err != nil {
			t.Fatal(err)
		}
		name := []string{"", "$"}[rand.IntN(2)] + []string{"", "ns:", "no:"}[rand.IntN(3)] +
			[]string{"news", "news#42", "news#7,42", "néws", "", strings.Repeat("x", 30)}[rand.IntN(6)]
		f := Facts{User: []string{"", "42"}[rand.IntN(2)], Insecure: rand.IntN(4) == 0}
		hasToken := rand.IntN(4) == 0
		e := r.ExplainSubscribe(name, f, hasToken)
		ch, err := r.ForClient(name)
		want := Decision{Err: err}
		if err == nil {
			want = ch.DecideSubscribe(f, ch.Type, hasToken)
		}
		context := func() string {
			return fmt.Sprintf("%q %+v token %v, %+v\n%+v", name, f, hasToken, e.Decision, e.Checks)
		}
		if fmt.Sprint(e.Decision) != fmt.Sprint(want) || (e.Reason == "") != (want.Err == nil) {
			t.Fatalf("want %+v: %s", want, context())
		}
		for _, c := range e.Checks {
			keys[c.Key] = true
		}
		if name == "" {
			continue
		}
		last := e.Checks[len(e.Checks)-1]
		switch {
		case e.Decision.Err == nil && !last.Holds:
			t.Fatalf("the last check does not hold: %s", context())
		case e.Decision.Err != nil && e.Key != "" && !slices.ContainsFunc(e.Checks, func(c Check) bool { return c.Key == e.Key }):
			t.Fatalf("the key %s was not checked: %s", e.Key, context())
		case errors.Is(e.Decision.Err, protocol.ErrorPermissionDenied) && last.Key == "client.insecure" && last.Holds:
			t.Fatalf("refused although everything is allowed: %s", context())
		}
	}
	delete(keys, "")
	for key := range keys {
		keytest.Check(t, key)
	}
}

func TestExplain(t *testing.T) {
	lines := func(e Explanation) string {
		var b strings.Builder
		for _, c := range e.Checks {
			fmt.Fprintf(&b, "%v %s (%s %s)\n", c.Holds, c.Text, c.Key, c.Value)
		}
		fmt.Fprintf(&b, "%d %d %s %s", e.Decision.By, e.Decision.Source, e.Key, e.Reason)
		return b.String()
	}
	r := resolver(t, `{"namespaces": [{"name": "ns", "allow_subscribe_for_client": true}]}`)
	got := lines(r.ExplainSubscribe("ns:a", Facts{}, false))
	want := strings.TrimSpace(`
true the channel's name is short enough (channel.max_length 255)
true there is a namespace ns (channel.namespaces )
true the channel's name is ASCII (channel.namespaces[ns].channel_regex )
false the channel's name begins with channel.private_prefix (channel.private_prefix $)
false the client has a subscription token, which decides alone ( )
false names of channels may list the users that may subscribe (channel.namespaces[ns].allow_user_limited_channels off)
false the backend decides, by the subscribe proxy (channel.namespaces[ns].subscribe_proxy_enabled off)
false the backend decides, by the subscribe stream proxy (channel.namespaces[ns].subscribe_stream_proxy_enabled off)
true clients may subscribe (channel.namespaces[ns].allow_subscribe_for_client on)
false clients without a user may subscribe (channel.namespaces[ns].allow_subscribe_for_anonymous off)
false everything is allowed to everybody (client.insecure off)
0 0 channel.namespaces[ns].allow_subscribe_for_anonymous allow_subscribe_for_anonymous is off in namespace ns, and the client has no user`)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if e := r.ExplainSubscribe("no:a", Facts{}, false); e.Namespace != nil || e.Key != "channel.namespaces" || e.Checks[1].Holds {
		t.Error(lines(e))
	}
}

// A decision that nobody asks to explain allocates nothing.
func TestDecideSubscribeAllocs(t *testing.T) {
	r := resolver(t, `{"namespaces": [{"name": "ns", "allow_subscribe_for_client": true}]}`)
	if n := testing.AllocsPerRun(1000, func() {
		ch, _ := r.ForClient("ns:a")
		ch.DecideSubscribe(user, Stream, false)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
