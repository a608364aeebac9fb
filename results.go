package gyro

import "github.com/gyrohq/gyro/channel"

// Names of the packages below that users meet at every step.
type (
	// StreamPosition is a place in a channel's stream.
	StreamPosition = channel.StreamPosition
	// ClientInfo tells who published or is present.
	ClientInfo = channel.ClientInfo
	// Publication is one message of a channel.
	Publication = channel.Publication
	// PublishResult of an accepted publish.
	PublishResult = channel.PublishResult
	// BatchPublication is an element of Node.PublishBatch.
	BatchPublication = channel.BatchPublication
	// PresenceStats are the counts of a channel.
	PresenceStats = channel.PresenceStats
	// History is what a stream holds.
	History = channel.History
	// HistoryFilter selects a part of a stream.
	HistoryFilter = channel.HistoryFilter
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
	// NumClients are authenticated connections, NumUsers their distinct users (all
	// anonymous connections count as one), NumSubs their subscriptions, NumChannels
	// the channels with at least one of them.
	NumClients, NumUsers, NumSubs, NumChannels int
	// Uptime in whole seconds.
	Uptime int64
}
