package gyro

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
)

// Types of other packages that most programs use.
type (
	// StreamPosition is a position in a channel's stream: Offset and Epoch, as
	// "go doc github.com/gyrohq/gyro/channel.StreamPosition" explains.
	StreamPosition = channel.StreamPosition

	// ClientInfo describes a client that published or is present: User and Client, their IDs, ConnInfo from the
	// client's Credentials and ChanInfo from its SubscribeOptions. See
	// "go doc github.com/gyrohq/gyro/protocol.ClientInfo".
	ClientInfo = protocol.ClientInfo

	// Publication is one message of a channel. Its fields, which
	// "go doc github.com/gyrohq/gyro/channel.Publication" explains:
	//
	//	Offset               in the stream; 0 if the channel does not keep it
	//	Data, Tags           the payload, and the tags for filters
	//	Info                 the client that published
	//	Time, Version        when, and which version
	//	Channel              the real channel, if the subscription is to another
	//	Key, Removed, Score  of map channels
	//	Checked              a node has found out that Data is JSON
	Publication = channel.Publication

	// PublishResult of an accepted publish: its Position, or why it was Suppressed. See
	// "go doc github.com/gyrohq/gyro/channel.PublishResult".
	PublishResult = channel.PublishResult

	// BatchPublication is an element of Node.PublishBatch: Channel, Data and Options go in,
	// Result and Err come out. See "go doc github.com/gyrohq/gyro/channel.BatchPublication".
	BatchPublication = channel.BatchPublication

	// PresenceStats are the numbers of Clients and Users in a channel. See
	// "go doc github.com/gyrohq/gyro/channel.PresenceStats".
	PresenceStats = channel.PresenceStats

	// History is a part of a stream: the Publications, and the Top position of the stream. See
	// "go doc github.com/gyrohq/gyro/channel.History".
	History = channel.History

	// FilterNode is a tags filter, or a part of one: Op joins Nodes, or without Op, Cmp compares
	// the tag Key with Val or Vals; Excess marks one that was too large. See
	// "go doc github.com/gyrohq/gyro/protocol.FilterNode".
	FilterNode = protocol.FilterNode

	// Encoding of a connection: EncodingJSON or EncodingProtobuf. See
	// "go doc github.com/gyrohq/gyro/protocol.Encoding".
	Encoding = protocol.Encoding

	// Feed sends publications to one subscription alone: see SubscribeReply.Feed, and
	// "go doc github.com/gyrohq/gyro/channel.Feed" for its methods.
	Feed = channel.Feed

	// Error answers a command of a client with a Code, a Message, and Temporary if the client should try again.
	// Handlers return one, or wrap it. Codes from 400 to 1999 are the application's, codes from 100 to 399 the
	// protocol's; there are no others. "go doc github.com/gyrohq/gyro/protocol.ErrorBadRequest" lists the errors of the
	// protocol, "go doc github.com/gyrohq/gyro/protocol.Error" the methods.
	Error = protocol.Error

	// Disconnect closes a connection with a Code and a Reason; Reconnect is unused. Handlers return one, or wrap it.
	// Codes from 4000 to 4499 (clients reconnect) and 4500 to 4999 (they do not) are the application's, codes from 3000
	// to 3999 the protocol's; there are no others. A reason has 1 to 123 bytes.
	// "go doc github.com/gyrohq/gyro/protocol.DisconnectShutdown" lists the disconnects of the protocol,
	// "go doc github.com/gyrohq/gyro/protocol.Disconnect" the methods.
	Disconnect = protocol.Disconnect

	// Unsubscribe is why a subscription ended: a Code and a Reason. The server sends codes from 2000 to 2499, after
	// which clients do not subscribe again, and codes from 2500 to 2999, after which they do. See
	// "go doc github.com/gyrohq/gyro/protocol.Unsubscribe".
	Unsubscribe = protocol.Unsubscribe
)

// Errors that handlers and the methods of Node return; package protocol has all others.
var (
	ErrorPermissionDenied      = protocol.ErrorPermissionDenied
	ErrorMethodNotFound        = protocol.ErrorMethodNotFound
	ErrorLimitExceeded         = protocol.ErrorLimitExceeded
	ErrorBadRequest            = protocol.ErrorBadRequest
	ErrorNotAvailable          = protocol.ErrorNotAvailable
	ErrorTokenExpired          = protocol.ErrorTokenExpired
	ErrorExpired               = protocol.ErrorExpired
	ErrorTooManyRequests       = protocol.ErrorTooManyRequests
	ErrorUnrecoverablePosition = protocol.ErrorUnrecoverablePosition
)

// Disconnects that handlers return; package protocol has all others.
var (
	DisconnectForceNoReconnect = protocol.DisconnectForceNoReconnect
	DisconnectInvalidToken     = protocol.DisconnectInvalidToken
	DisconnectBadRequest       = protocol.DisconnectBadRequest
)

// Values of Encoding.
const (
	EncodingJSON     = protocol.JSON
	EncodingProtobuf = protocol.Protobuf
)

// Values of SubscribeOptions.RecoveryMode.
const (
	RecoverStream = channel.RecoverStream
	RecoverCache  = channel.RecoverCache
)

// BroadcastResult is the outcome of a broadcast in one channel.
type BroadcastResult struct {
	PublishResult
	// Err is nil if the publication was accepted.
	Err error
}

// NodeInfo is a node's report about itself: UID, Name, Version, NumClients, NumUsers, NumSubs, NumChannels, Uptime and
// Process. See "go doc github.com/gyrohq/gyro/inspect.Node".
type NodeInfo = inspect.Node
