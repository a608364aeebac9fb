package channel

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Token identifies the token of a connection or a subscription. gyro.Inspector.Connections returns it. Clients do not
// see it.
type Token struct {
	// ID is unique for its issuer (claim jti); empty if it has none.
	ID string
	// IssuedAt is when it was issued (claim iat), in Unix seconds; 0 if it does not say.
	IssuedAt int64
}

// SubscribeOptions say how one subscription behaves. The zero value is a plain
// subscription: publications are delivered while the client is connected, and
// nothing else.
//
// A node refuses Recoverable and Positioned if it has a gyro.Config.Channel and that gives the
// channel no history, AutoRecover without Recoverable or RecoverCache, RecoverSince without
// Recoverable, and ChanInfo, Data and Publications that are not JSON, unless the channel is
// Binary. The error names the channel and the fields.
type SubscribeOptions struct {
	// ExpireAt is when the subscription ends unless it is refreshed, cut to whole seconds;
	// the zero time means never. Later than 365 days from now counts as 365 days.
	ExpireAt time.Time
	// ChanInfo becomes ClientInfo.ChanInfo of this client in this channel.
	ChanInfo []byte
	// Data is handed to the client with the subscribe result.
	Data []byte

	// Presence registers the client in the channel's presence.
	Presence bool
	// EmitJoinLeave tells the channel that this client came and went.
	EmitJoinLeave bool
	// PushJoinLeave sends this client the joins and leaves of the other clients.
	PushJoinLeave bool

	// Positioned makes delivery gap-free while connected: a lost publication ends
	// the subscription with code 2500 (server-side: the connection with 3010) and
	// the client subscribes again. It needs history in the channel.
	Positioned bool
	// Recoverable lets a returning client catch up. It implies Positioned.
	Recoverable bool
	// RecoveryMode: everything that was missed, or only the latest publication.
	RecoveryMode RecoveryMode
	// AutoRecover delivers the latest publication on every subscribe in
	// RecoverCache mode, as if the client had asked to recover.
	AutoRecover bool
	// RecoverSince is the position to recover from for a server-side subscription
	// made while the client is connected.
	RecoverSince *StreamPosition
	// HistoryMetaTTL is used when the stream is read for this subscription; 0 means Options.HistoryMetaTTL of the
	// channel, and if it is 0, too, the broker's default.
	HistoryMetaTTL time.Duration

	// AllowDelta lets the client negotiate Fossil delta compression.
	AllowDelta bool
	// AllowTagsFilter lets the client give a tags filter; without it a filter in
	// the request is a bad request (107).
	AllowTagsFilter bool
	// ServerTagsFilter is enforced beside the client's own: both must pass.
	ServerTagsFilter *protocol.FilterNode
	// AllowCompaction lets the client get a numeric channel ID, which replaces the channel's name in pushes. It is for
	// subscriptions that the client makes, if the client asks for it. A client that speaks Protobuf gets a number only
	// if its name is "go" or "python", the default names of the SDKs that understand numbers there.
	AllowCompaction bool
	// PublishDebounce asks the client to publish only the newest value within this time: to the
	// channel, in a map to each key. The first value is published at once. It is told to
	// the client in milliseconds, rounded up; at most 1 hour. 0: the client publishes all. The
	// node does not enforce it, and clients that do not know it publish all. It is for
	// subscriptions that the client makes.
	PublishDebounce time.Duration
	// Publications are delivered with the subscribe result when recovery yields
	// none.
	Publications []*Publication

	// Map is set if the channel is a map; see MapSubscription. Only clients subscribe to maps: in the options
	// of a server-side subscription it is an error. A map that is not Ephemeral is Recoverable,
	// whatever that says. RecoveryMode, AutoRecover, RecoverSince, Data and Publications mean nothing then.
	Map *MapSubscription

	// Poll is set if the client tracks keys of the channel; see SharedPoll. Only clients subscribe to such
	// channels. All that belongs to a stream or a map means nothing then.
	Poll *SharedPoll

	// PresenceMaps show which clients or users are in the channel; see PresenceMap.
	PresenceMaps []PresenceMap

	// BatchMaxDelay and BatchMaxSize make the channel prefer throughput: messages,
	// joins and leaves included, are held back until BatchMaxDelay has passed since
	// the first of them or BatchMaxSize of them are held, whichever comes first, and
	// then leave in one write per subscriber. Both are off by default, at 0 (and below).
	// With a size alone the delay is 1 s, with a delay alone the size is 64. More than
	// 1 minute counts as 1 minute, more than 64 messages as 64. A node that holds back
	// very much (16 MB per CPU) lets messages go early.
	//
	// They apply to the channel on the whole node: the values of the latest subscription
	// count, also for messages that are held already. A client that subscribes meanwhile
	// gets the messages that are held.
	BatchMaxDelay time.Duration
	BatchMaxSize  int
	// BatchFlushLatest drops the publications of a batch that a newer one of the batch replaces:
	// of a channel, the newest publication is delivered, in a map the newest of each key. With a
	// tags filter it is the newest that the filter lets through. Joins and leaves are not
	// dropped. Subscriptions that are Positioned or Recoverable, or to a map that is not Ephemeral, get all
	// publications: for them a missing one would be a loss. Like the two fields above it applies to the
	// channel on the whole node, and it needs one of them.
	BatchFlushLatest bool

	// Token is the token of the subscription; nil if none is known. It must not be modified. The node keeps it for the
	// life of the subscription, or until a SubRefreshReply has another one. Users.Subscribe ignores it.
	Token *Token
	// Source records where the subscription comes from.
	Source uint8
}
