package gyro

import (
	"time"

	"github.com/gyrohq/gyro/channel"
)

// Methods of Node and Client take options as pointers to structs. A nil pointer, like the
// zero value, means the defaults. A method reads the struct only during the call, so it may
// be shared and changed later, but what it refers to (tags, data, …) must not be modified.
type (
	// PublishOptions say how a publication is kept and delivered.
	PublishOptions = channel.PublishOptions
	// SubscribeOptions say how a subscription behaves.
	SubscribeOptions = channel.SubscribeOptions
	// ChannelOptions are what publications and subscriptions of a channel share.
	ChannelOptions = channel.Options
	// HistoryFilter selects a part of a stream.
	HistoryFilter = channel.HistoryFilter
)

// EveryChannel returns a function for Config.Channel that gives all channels the same options.
func EveryChannel(o ChannelOptions) func(channel string) ChannelOptions {
	return func(string) ChannelOptions { return o }
}

// Target selects connections of a user. The zero value selects all anonymous ones.
type Target struct {
	// User of the connections; empty for anonymous ones.
	User string
	// Client and Session, unless they are empty, are the IDs that a connection must have.
	// A session ID is a secret that clients of emulated and one-way transports get in their
	// connect result; other clients have none.
	Client, Session string
}

// DisconnectOptions of Node.Disconnect.
type DisconnectOptions struct {
	// Disconnect is the code and the reason; nil for DisconnectForceNoReconnect.
	Disconnect *Disconnect
	// Whitelist are the IDs of clients that stay connected.
	Whitelist []string
}

// RefreshOptions of Node.Refresh and Client.Refresh.
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
