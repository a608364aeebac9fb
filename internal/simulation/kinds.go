package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
)

// kind of channel: what the application makes of it, and what its subscribers may rely on.
type kind struct {
	prefix  string // of the channels' names
	weight  int    // among the channels of a plan
	options gyro.SubscribeOptions
	history gyro.ChannelOptions
	// changes of a map; nil: the channel is no map.
	changes *channel.MapOptions
	// server says that the server subscribes the clients.
	server bool
	// watched says that a map shows the clients in the channel.
	watched  bool
	sequence sequence
}

// sequence is what a subscriber may rely on while it is subscribed.
type sequence int

const (
	gapless    sequence = iota // each publication is the successor of the one before
	rising                     // the newest publication counts
	unnumbered                 // nothing twice, in the order of acknowledged publishes
)

var (
	kept   = gyro.ChannelOptions{HistorySize: 50, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour}
	paged  = channel.MapSubscription{Kind: channel.MapData, PageSize: 3, MinPageSize: 1, MaxPageSize: 4, LiveLimit: 2}
	memory = channel.MapOptions{KeyTTL: 4 * time.Second, StreamSize: 20, StreamTTL: time.Minute, Delta: true}
	brief  = channel.MapOptions{KeyTTL: 20 * time.Second}

	clientsMap = channel.MapSubscription{Kind: channel.MapClients, PageSize: 3, MinPageSize: 1, MaxPageSize: 4, LiveLimit: 2}
)

// roster begins the name of a map that shows the clients in the channel whose name follows.
const roster = "clients:"

// kinds of channels. A name belongs to the first kind whose prefix it has.
var channelKinds = []*kind{
	{prefix: "ch", weight: 8, history: kept, options: gyro.SubscribeOptions{
		Recoverable: true, Presence: true, EmitJoinLeave: true, PushJoinLeave: true, AllowDelta: true,
	}},
	{prefix: "cache", weight: 3, history: kept, sequence: rising, options: gyro.SubscribeOptions{
		Recoverable: true, RecoveryMode: gyro.RecoverCache, AutoRecover: true, AllowDelta: true, Presence: true,
	}},
	{prefix: "positioned", weight: 2, history: kept, options: gyro.SubscribeOptions{
		Positioned: true, AllowDelta: true, EmitJoinLeave: true, PushJoinLeave: true,
	}},
	{prefix: "plain", weight: 2, sequence: unnumbered, options: gyro.SubscribeOptions{
		EmitJoinLeave: true, PushJoinLeave: true,
	}},
	{prefix: "map", weight: 3, changes: &channel.MapOptions{StreamSize: 20, StreamTTL: time.Minute, Delta: true}, options: gyro.SubscribeOptions{
		Map: &paged, AllowDelta: true, Presence: true,
	}},
	{prefix: "lease", weight: 2, changes: &memory, options: gyro.SubscribeOptions{Map: &paged, AllowDelta: true}},
	{prefix: "ephemeral", weight: 2, changes: &brief, sequence: unnumbered, options: gyro.SubscribeOptions{
		Map: &channel.MapSubscription{Kind: channel.MapData, Ephemeral: true, PageSize: 3, MinPageSize: 1},
	}},
	{prefix: "tagged", weight: 3, history: kept, options: gyro.SubscribeOptions{
		Recoverable: true, AllowTagsFilter: true, AllowDelta: true, EmitJoinLeave: true,
	}},
	{prefix: "watched", weight: 2, history: kept, watched: true, options: gyro.SubscribeOptions{Recoverable: true, Presence: true}},
	{prefix: roster, changes: &channel.MapOptions{KeyTTL: 8 * time.Second, StreamSize: 20, StreamTTL: time.Minute}, options: gyro.SubscribeOptions{
		Map: &clientsMap,
	}},
	{prefix: whole, sequence: rising, history: kept, options: gyro.SubscribeOptions{
		Recoverable: true, RecoveryMode: gyro.RecoverCache, AutoRecover: true, AllowDelta: true,
	}},
	{prefix: "server", weight: 3, history: kept, server: true, options: gyro.SubscribeOptions{
		Recoverable: true, Presence: true, EmitJoinLeave: true, PushJoinLeave: true,
	}},
}

// kindOf returns the kind of a channel.
func kindOf(ch string) *kind {
	for _, s := range channelKinds {
		if strings.HasPrefix(ch, s.prefix) {
			return s
		}
	}
	return channelKinds[0]
}

// digit is the last character of a channel's name. It decides how channels of a kind differ.
func digit(ch string) int { return int(ch[len(ch)-1] - '0') }

// historyOf returns how much a channel keeps, and how long: some less than clients are away.
func historyOf(ch string) gyro.ChannelOptions {
	k := kindOf(ch)
	switch {
	case k.history.HistorySize == 0 || k.sequence != gapless:
	case digit(ch)%3 == 1:
		return gyro.ChannelOptions{HistorySize: 50, HistoryTTL: 4 * time.Second, HistoryMetaTTL: 8 * time.Second}
	case digit(ch)%3 == 2:
		return gyro.ChannelOptions{HistorySize: 6, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour}
	}
	return k.history
}

// batch makes publications of some channels wait for others.
func batch(ch string, o *gyro.SubscribeOptions) {
	if digit(ch)%4 > 1 {
		o.BatchMaxDelay, o.BatchMaxSize, o.BatchFlushLatest = 150*time.Millisecond, 8, digit(ch)%4 == 3
	}
}

// newChannels chooses the channels of a plan.
func newChannels(r *rand.Rand) []string {
	total := 0
	for _, s := range channelKinds {
		total += s.weight
	}
	names := []string{}
	for n := range 1 + r.IntN(5) {
		i := 0
		for w := r.IntN(total); w >= channelKinds[i].weight; i++ {
			w -= channelKinds[i].weight
		}
		names = append(names, fmt.Sprint(channelKinds[i].prefix, n))
		if channelKinds[i].watched {
			names = append(names, roster+names[len(names)-1])
		}
		if channelKinds[i].changes != nil && r.IntN(3) == 0 {
			names = append(names, whole+names[len(names)-1])
		}
	}
	return names
}

// subscriptionTo makes a subscription of the client; nil if the server makes it.
func (u *user) subscriptionTo(ch string, delta bool) *client.Subscription {
	k := kindOf(ch)
	o := client.SubscribeOptions{Delta: delta && k.options.AllowDelta}
	if own, _ := u.r.filters(u.name, ch); own {
		o.Delta, o.Filter = false, red
	}
	if u.r.renewal(u.name) == byClient {
		o.GetToken = u.token
	}
	var s *client.Subscription
	var err error
	switch {
	case k.server:
		return nil
	case k.changes != nil:
		var m *client.Map
		kind := client.MapKind(k.options.Map.Kind - channel.MapData)
		if m, err = u.c.NewMap(ch, &client.MapOptions{SubscribeOptions: o, Kind: kind}); err == nil {
			u.maps[ch], s = m, m.Subscription
		}
	default:
		s, err = u.c.NewSubscription(ch, &o)
	}
	if err != nil {
		panic(err)
	}
	return s
}

// granted are the subscriptions that the server makes when a user connects.
func (r *run) granted(user string) map[string]gyro.SubscribeOptions {
	subs := map[string]gyro.SubscribeOptions{}
	for _, ch := range r.plan.Names {
		if k := kindOf(ch); k.server && stream(r.plan.Seed, "granted "+user+" "+ch).IntN(3) > 0 {
			subs[ch] = r.optionsOf(user, ch)
		}
	}
	return subs
}
