// Package broker is the contract of the engines that carry publications between nodes, remember them, and know which
// clients are present. Package brokertest checks it.
package broker

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro/channel"
)

// Broker carries publications to every node that subscribed to their channel, and keeps streams. Any goroutine may call
// the methods, which block for as long as the backend needs; ctx bounds that time.
//
// An error that errors.As finds to be a *protocol.Error reaches the client as it is; any other becomes an internal
// error.
//
// The channel, idempotency key and version epoch of a publish may be parts of a much larger string: a broker that
// remembers them makes copies (strings.Clone).
type Broker interface {
	Engine
	// Run gives the broker the handler of its events, before any other call. It returns when the broker is ready. A
	// second Run fails.
	Run(h EventHandler) error
	// Subscribe starts the delivery of the channels' events to this node. Every event that is accepted after it returned
	// is delivered, and none that was accepted before it was called, unless servers of a cluster still pass it on to one
	// another. Subscribing twice is fine.
	Subscribe(ctx context.Context, channels ...string) error
	// Unsubscribe ends the delivery. Events may still arrive for a short time.
	Unsubscribe(ctx context.Context, channels ...string) error
	// Publish hands a publication to every subscribed node, this one included. Assigning the offset, appending to
	// history and handing over are one atomic step per channel: events arrive in the order of their offsets. The broker
	// owns pub and sets its Offset and Time (if 0).
	Publish(ctx context.Context, ch string, pub *channel.Publication, opts PublishOptions) (PublishResult, error)
	// PublishJoin and PublishLeave tell all subscribed nodes, at most once, that a client came or went. info must not be
	// changed afterwards.
	PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error
	PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error
	// History reads a stream. Reading a channel without stream creates an empty one: the position has an epoch then, and
	// the first publication continues it. A broker need not store an empty stream if it can tell the same epoch again,
	// at least while the channel is subscribed. When a stream that had publications ends, no later stream of the channel
	// has its epoch.
	History(ctx context.Context, ch string, filter HistoryFilter) (History, error)
	// RemoveHistory drops the publications of a stream; top offset and epoch stay.
	RemoveHistory(ctx context.Context, ch string) error
	// Close frees everything. No event arrives after it returned. Later calls of other methods fail; closing again is
	// fine.
	Close(ctx context.Context) error
}

// EventHandler receives the events of a broker, for one channel one at a time, in order. A call may block for a short
// time when the node is behind. It must not call the broker's Publish methods or Close, which may wait for it.
type EventHandler interface {
	HandlePublication(ch string, e PublicationEvent)
	HandleJoin(ch string, info *channel.ClientInfo)
	HandleLeave(ch string, info *channel.ClientInfo)
	// HandleLoss reports that events of channels that match accepts may be lost, because a connection broke or a queue
	// was full, and that from now on everything is delivered. The node checks the positions of subscriptions in these
	// channels. match may be called from any goroutine and later on.
	HandleLoss(match func(ch string) bool)
}

// PublicationEvent is a publication as delivered.
type PublicationEvent struct {
	Pub *channel.Publication
	// Epoch of the stream; empty if Pub.Offset is 0.
	Epoch string
	// Delta is PublishOptions.Delta, also if the stream keeps nothing and Prev is nil: the subscribers then compare with
	// the publication that they got last.
	Delta bool
	// Prev is the publication before Pub in the stream, if Delta is set and the stream still had it.
	Prev *channel.Publication
	// Memory that Pub and Prev lie in, if the broker uses it again. The receiver may call Free(1) once, when it needs
	// neither any more. Without that call the garbage collector gets the memory.
	Memory channel.Memory
}

type (
	// PublishOptions of one publication. A broker finds Tags, Info and Version in the Publication, and ignores these
	// fields of the options. It uses the others: HistorySize, HistoryTTL, HistoryMetaTTL, SkipHistory, IdempotencyKey,
	// IdempotencyTTL, VersionEpoch, Delta. See "go doc github.com/gyrohq/gyro/channel.PublishOptions".
	PublishOptions = channel.PublishOptions

	// PublishResult of an accepted publish: its Position, or why it was Suppressed.
	// See "go doc github.com/gyrohq/gyro/channel.PublishResult".
	PublishResult = channel.PublishResult

	// SuppressReason tells why a publish changed nothing.
	// See "go doc github.com/gyrohq/gyro/channel.SuppressReason".
	SuppressReason = channel.SuppressReason

	// HistoryFilter selects a part of a stream by Since, AtLeast, Limit, Reverse and MetaTTL. See "go doc
	// github.com/gyrohq/gyro/channel.HistoryFilter".
	HistoryFilter = channel.HistoryFilter

	// History is the content of a stream: its Publications and its Top.
	// See "go doc github.com/gyrohq/gyro/channel.History".
	History = channel.History

	// PresenceStats are the numbers of Clients and Users in a channel.
	// See "go doc github.com/gyrohq/gyro/channel.PresenceStats".
	PresenceStats = channel.PresenceStats
)

// Why a publish changed nothing.
const (
	SuppressIdempotency = channel.SuppressIdempotency
	SuppressVersion     = channel.SuppressVersion
)

// PresenceManager knows which clients are in a channel. Any goroutine may call the methods.
type PresenceManager interface {
	Engine
	// Add registers a client or renews its registration.
	Add(ctx context.Context, ch string, info *channel.ClientInfo) error
	// Remove is idempotent.
	Remove(ctx context.Context, ch, client, user string) error
	// Presence returns the clients by their ID.
	Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error)
	Stats(ctx context.Context, ch string) (PresenceStats, error)
}

// Controller carries control messages between nodes, which makes them a cluster. Brokers that can do so offer it as
// Traits.Control.
type Controller interface {
	Engine
	// RunControl gives the controller the ID of this node and the handler of its control messages. It is called at most
	// once, and before Run of the broker. Several goroutines may call handle at a time, in any order of messages; data
	// is valid during the call only.
	RunControl(node string, handle func(data []byte)) error
	// PublishControl sends data to one node, or to all, this one included, if node is empty. At most once. If the engine
	// knows that the node does not receive the message, the error wraps ErrNoReceiver.
	PublishControl(ctx context.Context, node string, data []byte) error
}

// ErrNoReceiver reports that the process of a node has ended, or has no connection to the engine for the moment.
var ErrNoReceiver = errors.New("nobody receives messages for the node")
