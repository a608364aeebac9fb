package gyro

import (
	"time"

	"github.com/gyrohq/gyro/channel"
)

// Options are structs, given to methods of Node and Client by pointers, which may be nil:
// the zero value has the defaults. They are read during the call alone, and may be shared;
// what they refer to (tags, data, …) must not be modified afterwards.
type (
	// PublishOptions say what becomes of a publication.
	PublishOptions = channel.PublishOptions
	// SubscribeOptions say how a subscription behaves.
	SubscribeOptions = channel.SubscribeOptions
	// HistoryFilter selects a part of a stream.
	HistoryFilter = channel.HistoryFilter
)

// Target selects connections of a user. The zero value selects all anonymous ones.
type Target struct {
	// User whose connections they are; empty for the anonymous one.
	User string
	// Client and Session, unless they are empty, are the IDs that a connection must have.
	// A Session is a secret that clients of emulated and one-way transports have from
	// their connect result; others have none.
	Client, Session string
}

// DisconnectOptions of Node.Disconnect.
type DisconnectOptions struct {
	// Disconnect is code and reason; nil for DisconnectForceNoReconnect.
	Disconnect *Disconnect
	// Whitelist are the IDs of clients that are spared.
	Whitelist []string
}

// RefreshOptions of Node.Refresh.
type RefreshOptions struct {
	// Expired closes the connections with 3005 now; the rest is ignored.
	Expired bool
	// ExpireAt is as in Credentials: with the zero time, connections never expire from
	// now on, with a time in the past they are closed with 3005.
	ExpireAt time.Time
	// Info replaces the connection info if it is not nil and ExpireAt is in the future.
	Info []byte
}

// orZero is what p points to, or the zero value.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
