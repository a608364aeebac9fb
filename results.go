package gyro

import (
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Types of other packages that most programs use.
type (
	// StreamPosition is a position in a channel's stream.
	StreamPosition = channel.StreamPosition
	// ClientInfo tells who published or is present.
	ClientInfo = channel.ClientInfo
	// Publication is one message of a channel.
	Publication = channel.Publication
	// PublishResult of an accepted publish.
	PublishResult = channel.PublishResult
	// BatchPublication is an element of Node.PublishBatch.
	BatchPublication = channel.BatchPublication
	// PresenceStats are the numbers of clients and users in a channel.
	PresenceStats = channel.PresenceStats
	// History is a part of a stream, and its top position.
	History = channel.History
	// FilterNode is a tags filter, or a part of one.
	FilterNode = protocol.FilterNode
	// Encoding of a connection: EncodingJSON or EncodingProtobuf.
	Encoding = protocol.Encoding
	// Error answers a command of a client. Handlers return one, or wrap it. Codes from 400
	// to 1999 are the application's.
	Error = protocol.Error
	// Disconnect closes a connection. Handlers return one, or wrap it. Codes from 4000 to
	// 4499 (clients reconnect) and 4500 to 4999 (they do not) are the application's. A
	// reason has 1 to 123 bytes.
	Disconnect = protocol.Disconnect
	// Unsubscribe is why a subscription ended.
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

// NodeInfo is what a node tells about itself.
type NodeInfo struct {
	// UID is random for each Node value.
	UID string
	// Name as configured.
	Name    string
	Version string
	// NumClients is the number of authenticated connections, NumUsers that of their distinct
	// users (anonymous connections count as one user), NumSubs that of their subscriptions,
	// NumChannels that of the channels with a subscription.
	NumClients, NumUsers, NumSubs, NumChannels int
	// Uptime in whole seconds.
	Uptime time.Duration
}
