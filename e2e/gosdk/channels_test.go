package gosdk

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func publish(s sdk) {
	channel := unique("room:")
	alice, bob := s.connect(centrifuge.Config{}), s.connect(centrifuge.Config{})
	a, b := alice.subscribe(channel, centrifuge.SubscriptionConfig{}), bob.subscribe(channel, centrifuge.SubscriptionConfig{})

	_, err := a.Publish(s.context(), []byte(`{"n":1}`))
	s.must(err)
	for _, receiver := range []*sub{a, b} {
		pub := wait.Receive(s, "client's publication", receiver.publications)
		s.equal("data", string(pub.Data), `{"n":1}`)
		s.equal("publisher", pub.Info.User, alice.user)
		s.equal("offset", pub.Offset, 1)
	}

	s.api("publish", object{"channel": channel, "data": object{"n": 2}, "tags": object{"lang": "en"}})
	for _, receiver := range []*sub{a, b} {
		pub := wait.Receive(s, "publication of the API", receiver.publications)
		s.equal("data", string(pub.Data), `{"n":2}`)
		s.equal("tags", pub.Tags, map[string]string{"lang": "en"})
		s.equal("publisher", pub.Info == nil, true)
		s.equal("offset", pub.Offset, 2)
	}
}

func presence(s sdk) {
	channel := unique("room:")
	alice := s.connect(centrifuge.Config{Token: rig.Token(object{"sub": "alice", "info": object{"name": "Alice"}})})
	bob := s.connect(centrifuge.Config{Token: rig.Token(object{"sub": "bob"})})
	bobToo := s.connect(centrifuge.Config{Token: rig.Token(object{"sub": "bob"})})
	a := alice.subscribe(channel, centrifuge.SubscriptionConfig{})
	bob.subscribe(channel, centrifuge.SubscriptionConfig{})
	bobToo.subscribe(channel, centrifuge.SubscriptionConfig{})

	there, err := a.Presence(s.context())
	s.must(err)
	users := map[string]int{}
	for id, info := range there.Clients {
		s.equal("client", info.Client, id)
		users[info.User]++
		if info.User == "alice" {
			s.equal("info", string(info.ConnInfo), `{"name":"Alice"}`)
		}
	}
	s.equal("users", users, map[string]int{"alice": 1, "bob": 2})
	stats, err := a.PresenceStats(s.context())
	s.must(err)
	s.equal("stats", stats.PresenceStats, centrifuge.PresenceStats{NumClients: 3, NumUsers: 2})
}

func joinLeave(s sdk) {
	channel := unique("room:")
	alice, bob := s.connect(centrifuge.Config{}), s.connect(centrifuge.Config{})
	a := alice.subscribe(channel, centrifuge.SubscriptionConfig{JoinLeave: true})
	s.equal("own join", wait.Receive(s, "join", a.joins).User, alice.user)
	b := bob.subscribe(channel, centrifuge.SubscriptionConfig{}) // does not ask for them
	s.equal("join", wait.Receive(s, "join", a.joins).User, bob.user)
	s.must(b.Unsubscribe())
	s.equal("leave after unsubscribe", wait.Receive(s, "leave", a.leaves).User, bob.user)
	s.must(b.Subscribe())
	s.equal("join", wait.Receive(s, "join", a.joins).User, bob.user)
	s.publish(channel, 1)
	wait.Receive(s, "publication", b.publications)
	none(s, "join without asking", b.joins)
	s.must(bob.Disconnect())
	s.equal("leave after disconnect", wait.Receive(s, "leave", a.leaves).User, bob.user)
}

func history(s sdk) {
	channel := unique("room:")
	a := s.connect(centrifuge.Config{}).subscribe(channel, centrifuge.SubscriptionConfig{})
	for n := 1; n <= 10; n++ {
		s.publish(channel, n)
	}
	read := func(opts ...centrifuge.HistoryOption) centrifuge.HistoryResult {
		s.Helper()
		h, err := a.History(s.context(), opts...)
		s.must(err)
		return h
	}
	numbers := func(h centrifuge.HistoryResult) (all []int) {
		for _, pub := range h.Publications {
			all = append(all, s.number(pub.Data))
		}
		return all
	}
	top := read()
	s.equal("top", top.Offset, 10)
	s.equal("without limit", numbers(top), []int{})
	s.equal("first three", numbers(read(centrifuge.WithHistoryLimit(3))), []int{1, 2, 3})
	s.equal("all", numbers(read(centrifuge.WithHistoryLimit(-1))), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	s.equal("last two", numbers(read(centrifuge.WithHistoryLimit(2), centrifuge.WithHistoryReverse(true))), []int{10, 9})
	since := centrifuge.WithHistorySince(&centrifuge.StreamPosition{Offset: 4, Epoch: top.Epoch})
	s.equal("since", numbers(read(since, centrifuge.WithHistoryLimit(2))), []int{5, 6})
	s.equal("before", numbers(read(since, centrifuge.WithHistoryLimit(-1), centrifuge.WithHistoryReverse(true))), []int{3, 2, 1})
	_, err := a.History(s.context(), centrifuge.WithHistoryLimit(1),
		centrifuge.WithHistorySince(&centrifuge.StreamPosition{Offset: 4, Epoch: "other"}))
	s.hasCode(err, 112)
}

func manySubscriptions(s sdk) {
	const n = 100
	c := s.client(servers.Main.WS(), centrifuge.Config{})
	prefix := unique("room:many") + "-"
	subs := make([]*sub, n)
	for i := range subs {
		subs[i] = c.subscription(fmt.Sprint(prefix, i), centrifuge.SubscriptionConfig{})
	}
	c.open()
	channels := make([]string, n)
	for i, sub := range subs {
		wait.Receive(s, "subscribed", sub.subscribed)
		channels[i] = sub.Channel
	}
	s.api("broadcast", object{"channels": channels, "data": object{"n": 7}})
	for _, sub := range subs {
		s.equal("broadcast", s.number(wait.Receive(s, "publication", sub.publications).Data), 7)
	}
}

func deltas(s sdk) {
	channel := unique("delta:")
	receive := func(cfg centrifuge.SubscriptionConfig) (*sub, *rig.Proxy) {
		proxy := s.proxy(servers.Main)
		c := s.client(proxy.WS(), centrifuge.Config{})
		c.open()
		return c.subscribe(channel, cfg), proxy
	}
	with, small := receive(centrifuge.SubscriptionConfig{Delta: centrifuge.DeltaTypeFossil})
	without, large := receive(centrifuge.SubscriptionConfig{})
	filler := strings.Repeat("the same text again and again, ", 20)
	for n := 1; n <= 20; n++ {
		s.api("publish", object{"channel": channel, "data": object{"n": n, "text": filler + "ünïcode 🚀", "odd": n%3 == 0}})
		for _, sub := range []*sub{with, without} {
			var got struct {
				N    int
				Text string
				Odd  bool
			}
			s.must(json.Unmarshal(wait.Receive(s, "publication", sub.publications).Data, &got))
			s.equal("n", got.N, n)
			s.equal("text", got.Text, filler+"ünïcode 🚀")
			s.equal("odd", got.Odd, n%3 == 0)
		}
	}
	// All of this would pass without deltas, too: check that there are some.
	if with, without := small.Sent(), large.Sent(); with > without/3 {
		s.Errorf("%d bytes with deltas, %d without", with, without)
	}
}

func tagsFilter(s sdk) {
	channel := unique("tagged:")
	c := s.connect(centrifuge.Config{})
	filter := centrifuge.FilterAnd(
		centrifuge.FilterIn("ticker", "BTC", "ETH"),
		centrifuge.FilterOr(centrifuge.FilterGte("price", "100"), centrifuge.FilterExists("urgent")),
	)
	matching := c.subscribe(channel, centrifuge.SubscriptionConfig{TagsFilter: filter})
	for n, tags := range []object{
		{"ticker": "BTC", "price": "99.5"}, // 0: too cheap
		{"ticker": "BTC", "price": "100"},  // 1
		{"ticker": "SOL", "price": "500"},  // 2: other ticker
		{"ticker": "ETH", "urgent": "yes"}, // 3
		{},                                 // 4: no tags
		{"ticker": "ETH", "price": "1000", "extra": "x"}, // 5
	} {
		s.api("publish", object{"channel": channel, "data": object{"n": n}, "tags": tags})
	}
	for _, want := range []int{1, 3, 5} {
		s.equal("publication", s.number(wait.Receive(s, "publication", matching.publications).Data), want)
	}
	refused := c.subscription(unique("room:"), centrifuge.SubscriptionConfig{TagsFilter: filter})
	s.equal("filter where none is allowed", wait.Receive(s, "unsubscribed", refused.unsubscribed).Code, 107)
}

func privateChannel(s sdk) {
	channel := unique("$room:")
	c := s.connect(centrifuge.Config{})
	signed := func(user, channel string) func(centrifuge.SubscriptionTokenEvent) (string, error) {
		return func(e centrifuge.SubscriptionTokenEvent) (string, error) {
			return rig.Token(object{"sub": user, "channel": channel, "info": object{"seat": 4}, "data": object{"hello": 1}}), nil
		}
	}
	private := c.subscription(channel, centrifuge.SubscriptionConfig{GetToken: signed(c.user, channel)})
	s.equal("data", string(wait.Receive(s, "subscribed", private.subscribed).Data), `{"hello":1}`)
	_, err := private.Publish(s.context(), []byte(`{"n":1}`))
	s.must(err)
	s.equal("channel info", string(wait.Receive(s, "publication", private.publications).Info.ChanInfo), `{"seat":4}`)

	noToken := c.subscription(unique("$room:"), centrifuge.SubscriptionConfig{})
	s.equal("no token", wait.Receive(s, "unsubscribed", noToken.unsubscribed).Code, 103)
	invalid := c.subscription(unique("$room:"), centrifuge.SubscriptionConfig{Token: "eyJhbGciOiJub25lIn0.e30."})
	s.equal("invalid token", wait.Receive(s, "unsubscribed", invalid.unsubscribed).Code, 103)

	c.subscription(unique("$room:"), centrifuge.SubscriptionConfig{GetToken: signed("someone else", channel)})
	s.equal("token of another", wait.Receive(s, "disconnected", c.disconnected).Code, 3500)
}

func userLimited(s sdk) {
	c := s.connect(centrifuge.Config{})
	own := c.subscribe(unique("user:dm")+"#someone,"+c.user, centrifuge.SubscriptionConfig{})
	s.publish(own.Channel, 5)
	s.equal("publication", s.number(wait.Receive(s, "publication", own.publications).Data), 5)
	other := c.subscription(unique("user:dm")+"#someone,"+c.user+"x", centrifuge.SubscriptionConfig{})
	s.equal("not listed", wait.Receive(s, "unsubscribed", other.unsubscribed).Code, 103)
}

func channelErrors(s sdk) {
	c := s.connect(centrifuge.Config{})
	refusal := func(channel string) centrifuge.UnsubscribedEvent {
		s.Helper()
		return wait.Receive(s, "unsubscribed", c.subscription(channel, centrifuge.SubscriptionConfig{}).unsubscribed)
	}
	s.equal("unknown namespace", refusal("nowhere:x"), centrifuge.UnsubscribedEvent{Code: 102, Reason: "unknown channel"})
	s.equal("forbidden", refusal("closed:x"), centrifuge.UnsubscribedEvent{Code: 103, Reason: "permission denied"})
	s.equal("too long", refusal("room:"+strings.Repeat("x", 251)).Code, 107)
	s.equal("not ASCII", refusal("room:ü").Code, 107)

	_, err := c.Publish(s.context(), "nowhere:x", []byte(`{}`))
	s.hasCode(err, 102)
	_, err = c.Publish(s.context(), "room:not-subscribed", []byte(`{}`))
	s.hasCode(err, 103)
	_, err = c.Presence(s.context(), "stream:x")
	s.hasCode(err, 108)
	_, err = c.History(s.context(), "tagged:x")
	s.hasCode(err, 108)
	_, err = c.RPC(s.context(), "anything", []byte(`{}`))
	s.hasCode(err, 108)
	none(s, "disconnected", c.disconnected)
}
