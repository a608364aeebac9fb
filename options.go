package gyro

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/refusal"
)

// Methods of Node and Client take options as pointers to structs. A nil pointer, like the zero value, means the
// defaults. A method reads the struct only during the call, so the struct may be shared and changed later. But data
// behind its pointers, slices and maps (tags, data, …) must not be modified.
type (
	// PublishOptions say how a publication is kept and delivered. Their fields, which
	// "go doc github.com/gyrohq/gyro/channel.PublishOptions" explains:
	//
	//	HistorySize, HistoryTTL         how many publications the channel keeps, and how long
	//	HistoryMetaTTL                  how long its position outlives them
	//	SkipHistory                     the channel does not keep this one
	//	IdempotencyKey, IdempotencyTTL  the same key publishes once
	//	Version, VersionEpoch           an old version is not published
	//	Delta                           subscribers may get differences
	//	Tags, Info                      go with the publication
	PublishOptions = channel.PublishOptions

	// SubscribeOptions say how a subscription behaves. Their fields, which
	// "go doc github.com/gyrohq/gyro/channel.SubscribeOptions" explains:
	//
	//	Presence                       the client is listed
	//	EmitJoinLeave, PushJoinLeave   the channel hears of the client, the client of others
	//	Positioned, Recoverable        no gaps; a client that is back gets the publications that it missed
	//	RecoveryMode, AutoRecover      all that was missed, or only the latest publication
	//	RecoverSince                   from where a server-side subscription recovers
	//	HistoryMetaTTL                 how long the position outlives the publications
	//	Publications                   sent with the subscribe reply if the client recovers nothing
	//	ExpireAt                       when the subscription ends unless it is refreshed
	//	ChanInfo, Data                 information for others about the client, and data for the client itself
	//	AllowDelta, AllowCompaction    features that the client may ask for
	//	AllowTagsFilter                likewise
	//	ServerTagsFilter               which publications the client gets
	//	BatchMaxDelay, BatchMaxSize    several messages leave in one write, with BatchFlushLatest the newest alone
	//	PublishDebounce                how often the client publishes at most
	//	Map, Poll                      the channel is a map (docs/maps.md), or its keys are tracked (docs/shared-poll.md)
	//	PresenceMaps                   maps that list the clients in the channel
	//	Rights, Needs                  what the client may do while subscribed, and the capabilities that it must keep
	//	Token, Source                  the client's token, and a number of the application
	SubscribeOptions = channel.SubscribeOptions

	// ChannelOptions are shared by the publications and subscriptions of a channel: HistorySize and HistoryTTL keep its
	// publications, HistoryMetaTTL its position, and Binary allows payloads that are not JSON. See
	// "go doc github.com/gyrohq/gyro/channel.Options".
	ChannelOptions = channel.Options

	// HistoryFilter selects a part of a stream by its fields, which
	// "go doc github.com/gyrohq/gyro/channel.HistoryFilter" explains: Since a position, Limit,
	// Reverse from the newest on; AtLeast is a position that the caller knows of; MetaTTL says how long
	// the position outlives the publications.
	HistoryFilter = channel.HistoryFilter
)

// EveryChannel returns a function for Config.Channel that gives all channels the same options.
func EveryChannel(o ChannelOptions) func(channel string) ChannelOptions {
	return func(string) ChannelOptions { return o }
}

// Target selects the connections that match all its fields. A Target that names nothing is an error. Without User and
// Anonymous, the connection with the ID Client is looked for among all, which takes each node about a millisecond per
// 30,000 connections.
type Target struct {
	// User of the connections.
	User string
	// Anonymous selects connections without a user. It contradicts User.
	Anonymous bool
	// Client is the ID of one connection. Session is another one, a secret that clients of emulated and
	// one-way transports get in their connect result; other clients have none.
	Client, Session string
}

// anyUser reports whether the user of a connection does not matter.
func (t *Target) anyUser() bool { return t.User == "" && !t.Anonymous }

// check returns ErrorBadRequest, with a reason, for a Target that selects nothing.
func (t *Target) check() error {
	switch {
	case *t == Target{}:
		return refusal.Because(ErrorBadRequest, "", "the Target is empty: it needs a User, a Client, a Session, or Anonymous")
	case t.User != "" && t.Anonymous:
		return refusal.Because(ErrorBadRequest, "", "the Target has a User and is Anonymous, which contradict each other")
	}
	return nil
}

// DisconnectOptions of Users.Disconnect.
type DisconnectOptions struct {
	// Disconnect is the code, from 3000 to 4999, and the reason; nil for DisconnectForceNoReconnect.
	Disconnect *Disconnect
	// Whitelist are the IDs of clients that stay connected.
	Whitelist []string
}

// RefreshOptions of Users.Refresh and Client.Refresh.
type RefreshOptions struct {
	// Expired closes the connections with 3005 now; the rest is ignored.
	Expired bool
	// ExpireAt is as in Credentials. With the zero time, connections no longer expire; with
	// a time in the past, they are closed with 3005.
	ExpireAt time.Time
	// Info replaces the connection info if it is not nil and ExpireAt is in the future.
	Info []byte
}

// orZero returns *p, or the zero value if p is nil.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
