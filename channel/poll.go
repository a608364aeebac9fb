package channel

import (
	"context"
	"time"
)

// Defaults of a SharedPoll, and the most bytes of a key; a longer one is error 107.
const (
	DefaultPollInterval  = 10 * time.Second
	DefaultPollTimeout   = 30 * time.Second
	DefaultPollBatchSize = 1000
	DefaultMaxKeys       = 5000
	DefaultPollLinger    = time.Second
	DefaultKeyGrace      = 25 * time.Second
	MaxKeyLength         = 1024
)

// SharedPoll makes a subscription whose client tracks keys and gets the newest value of each (docs/shared-poll.md). The
// node asks Poll once for the keys of all its clients. All subscriptions of a channel share the fields of the latest
// one; they must not be modified.
type SharedPoll struct {
	// Poll returns the values of at most BatchSize keys. It is called on goroutines, several at a time; ctx ends after
	// Timeout, or with the node. After an error, which is logged, all values stay. Required.
	Poll func(ctx context.Context, channel string, keys []PolledKey) (PollAnswer, error)
	// Track decides whether a client may track keys, and sets the ExpireAt of each batch. Its errors are as of handlers:
	// protocol.ErrorPermissionDenied, for example. Without it, clients cannot track keys (error 108).
	Track func(ctx context.Context, r *TrackRequest) error
	// Versioned says that Poll and publishers give versions: a value counts if its version is greater than the known
	// one. Otherwise the node numbers values that differ from the one before.
	Versioned bool
	// KeepLatest keeps the latest value of each tracked key: a client gets it at once, and may get differences
	// (SubscribeOptions.AllowDelta). Otherwise the node asks Poll, and knows the value before only from Poll.
	KeepLatest bool
	// Interval between two questions for a key; the calls are spread over it. 0: 10 s.
	Interval time.Duration
	// MaxInterval bounds the interval, which grows while calls take more than half of it. 0: Interval.
	MaxInterval time.Duration
	// Timeout of a call. 0: 30 s.
	Timeout time.Duration
	// BatchSize is the most keys of a call. 0: 1,000.
	BatchSize int
	// NotifyDelay is how long a key of Polls.Notify waits at most for others, until they are NotifyBatch. 0: not at all,
	// and BatchSize.
	NotifyDelay time.Duration
	NotifyBatch int
	// MaxKeys is the most keys of a connection in the channel; more are error 106. 0: 5,000.
	MaxKeys int
	// Linger is how long the node remembers a key that no client tracks, and the channel after its last subscriber. 0: 1
	// s; negative: not at all.
	Linger time.Duration
	// KeyGrace is how long a key is tracked after TrackBatch.ExpireAt, exact to gyro.Config.PresenceUpdateInterval. 0:
	// 25 s.
	KeyGrace time.Duration
}

// TrackRequest is a client that wants to track keys.
type TrackRequest struct {
	Channel      string
	Client, User string
	Batches      []TrackBatch
}

// TrackBatch has keys that a signature covers, in the client's order.
type TrackBatch struct {
	Signature string
	Keys      []string
	// ExpireAt is when the signature expires, in whole seconds; the client must send another one before. Zero: never.
	// SharedPoll.Track sets it.
	ExpireAt time.Time
}

// PolledKey is a key that some client tracks.
type PolledKey struct {
	Key string
	// Version that the node knows; 0 if it needs the value, and always unless the channel is Versioned. Poll may leave
	// out a key that still has this version.
	Version uint64
}

// PollAnswer has the values of keys. Keys that are left out have not changed.
type PollAnswer struct {
	Values []KeyValue
	// Epoch of the versions, if the channel is Versioned. With another one, versions begin anew: subscribers subscribe
	// again (code 2500). Empty: as before.
	Epoch string
}

// KeyValue is the value of a key.
type KeyValue struct {
	Key string
	// Data must be JSON unless the channel is Binary (Options.Binary).
	Data []byte
	// Version of the value, > 0, if the channel is Versioned.
	Version uint64
	// Removed says that the key exists no more; clients are told, and track it no more.
	Removed bool
	// Prev may be the value before. If it is the one that the node knows, clients may get the difference.
	Prev []byte
}

// Polls are the channels of a node with SharedPoll. Any goroutine may call the methods.
type Polls interface {
	// Publish gives all nodes a new value of a key in a Versioned channel. Nodes drop values that are not newer, and of
	// keys without a client. Nodes that it does not reach ask in their next interval.
	Publish(ctx context.Context, channel, epoch string, v KeyValue) error
	// Notify makes this node ask for keys now, or after SharedPoll.NotifyDelay. It returns how many of the keys its
	// clients track; it ignores the others.
	Notify(channel string, keys ...string) (tracked int)
	// Size counts the channels with subscribers on this node, and the tracked keys.
	Size() (channels, keys int)
}
