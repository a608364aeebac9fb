package channel

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Token identifies the token of a connection or a subscription, for gyro.Inspector.Connections. Clients do not see it.
type Token struct {
	// ID is the claim jti; empty if there is none.
	ID string
	// IssuedAt is the claim iat, in Unix seconds; 0 if there is none.
	IssuedAt int64
}

// SubscribeOptions of one subscription. With the zero value, publications are delivered while the client is
// connected, and nothing else.
//
// A node refuses Recoverable and Positioned if gyro.Config.Channel gives the channel no history, AutoRecover without
// Recoverable or RecoverCache, RecoverSince without Recoverable, and ChanInfo, Data and Publications that are not
// JSON, unless the channel is Binary. The error names the channel and the fields.
type SubscribeOptions struct {
	// ExpireAt is when the subscription ends unless it is refreshed, in whole seconds, 365 days from now at most; zero:
	// never.
	ExpireAt time.Time
	// ChanInfo becomes ClientInfo.ChanInfo of this client in this channel.
	ChanInfo []byte
	// Data goes with the subscribe result.
	Data []byte

	// Presence registers the client in the channel's presence.
	Presence bool
	// EmitJoinLeave tells the channel that this client came and went.
	EmitJoinLeave bool
	// PushJoinLeave sends this client the joins and leaves of the other clients.
	PushJoinLeave bool

	// Positioned makes delivery gap-free while connected: a lost publication ends the subscription with 2500
	// (server-side: the connection with 3010), and the client subscribes again. It needs history.
	Positioned bool
	// Recoverable lets a returning client catch up. It implies Positioned.
	Recoverable bool
	// RecoveryMode: everything that was missed, or only the latest publication.
	RecoveryMode RecoveryMode
	// AutoRecover delivers the latest publication on every subscribe in RecoverCache mode, whatever the client asks.
	AutoRecover bool
	// RecoverSince is the position from which a server-side subscription of a connected client recovers.
	RecoverSince *StreamPosition
	// HistoryMetaTTL for reads of the stream for this subscription. 0: Options.HistoryMetaTTL of the channel, else the
	// broker's default.
	HistoryMetaTTL time.Duration

	// AllowDelta lets the client negotiate Fossil delta compression.
	AllowDelta bool
	// AllowTagsFilter lets the client give a tags filter, which else is error 107.
	AllowTagsFilter bool
	// ServerTagsFilter is enforced beside the client's own: both must pass.
	ServerTagsFilter *protocol.FilterNode
	// AllowCompaction lets a client that asks for it get a number in place of the channel's name in pushes, in its own
	// subscriptions. Over Protobuf only clients named "go" or "python" get one: the SDKs that understand numbers there.
	AllowCompaction bool
	// PublishDebounce asks the client to publish only the newest value within this time, in a map of each key, but the
	// first one at once. It is sent in milliseconds, rounded up; at most 1 hour. 0: the client publishes all. The node
	// does not enforce it. It is for subscriptions that the client makes.
	PublishDebounce time.Duration
	// Publications go with the subscribe result if recovery yields none.
	Publications []*Publication

	// Map is set if the channel is a map. In a server-side subscription it is an error. A map that is not Ephemeral is
	// Recoverable in any case. RecoveryMode, AutoRecover, RecoverSince, Data and Publications are unused then.
	Map *MapSubscription

	// Poll is set if the client tracks keys of the channel. In a server-side subscription it is an error. All options of
	// streams and maps are unused then.
	Poll *SharedPoll

	// PresenceMaps show which clients or users are in the channel.
	PresenceMaps []PresenceMap

	// BatchMaxDelay and BatchMaxSize prefer throughput: messages, joins and leaves included, wait until BatchMaxDelay
	// has passed since the first of them or there are BatchMaxSize, and then leave in one write per subscriber. 0 and
	// below: off. With a size alone the delay is 1 s, with a delay alone the size is 64; the most are 1 minute and 64
	// messages. A node with very much that waits (16 MB per CPU) lets messages go early.
	//
	// They apply to the channel on the whole node: the latest subscription counts, also for messages that wait
	// already. A client that subscribes meanwhile gets these.
	BatchMaxDelay time.Duration
	BatchMaxSize  int
	// BatchFlushLatest drops the publications of a batch that a newer one replaces: in a map of the same key, with a
	// tags filter of those that it lets through. Joins and leaves stay. Subscriptions that are Positioned or
	// Recoverable, or to a map that is not Ephemeral, get all publications. It applies to the channel on the whole node,
	// and needs one of the two fields above.
	BatchFlushLatest bool

	// Token of the subscription; nil if none is known. It must not be modified. A SubRefreshReply may replace it.
	// Users.Subscribe ignores it.
	Token *Token
	// Rights of the client in the channel while it is subscribed, for the handlers; a SubRefreshReply may replace them.
	Rights Rights
	// Needs are the rights of the client's Capabilities to which it owes the subscription. When a refresh takes one of
	// them away, the subscription ends: with 2000 without RightSubscribe, else with 2502, and the client subscribes anew.
	Needs Rights
	// Source records the origin of the subscription.
	Source uint8
}
