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

// SharedPoll makes a subscription one whose client tracks keys: it gets the newest value of each key that
// it tracks, and nothing else (docs/shared-poll.md). The node asks Poll for the values of the keys that
// its clients track, once for all of them. All subscriptions of a channel share the fields of the latest one, so
// they should be the same for all. They must not be modified.
type SharedPoll struct {
	// Poll returns the values of keys: at most BatchSize keys. It is called on goroutines of its own, several at a
	// time; ctx ends after Timeout, or when the node ends. After an error, which the node logs, all values stay as they
	// are. It is required.
	Poll func(ctx context.Context, channel string, keys []PolledKey) (PollAnswer, error)
	// Track decides whether a client may track the keys of all batches, and sets the ExpireAt of each. It returns
	// errors as handlers do: protocol.ErrorPermissionDenied, for example. Without it, clients cannot track keys
	// (error 108).
	Track func(ctx context.Context, r *TrackRequest) error
	// Versioned says that Poll and publishers give a version with each value: a value counts if its version is greater
	// than the known one. Otherwise the node numbers the values itself: a value that differs from the one before gets a
	// new number.
	Versioned bool
	// KeepLatest keeps the latest value of each tracked key in memory: a client that begins to track a known key gets
	// it at once, and clients may get differences (SubscribeOptions.AllowDelta). Otherwise the node asks Poll once
	// more, and knows the value before only if Poll says it.
	KeepLatest bool
	// Interval is the time between two questions for a key; the calls are spread over it. 0: 10 s.
	Interval time.Duration
	// MaxInterval lets the interval grow up to it while calls take more than half of the interval. 0: Interval.
	MaxInterval time.Duration
	// Timeout of a call. 0: 30 s.
	Timeout time.Duration
	// BatchSize is the most keys of a call. 0: 1,000.
	BatchSize int
	// NotifyDelay is how long a key that Polls.Notify names waits at most for others, so that one call asks for all
	// of them; they wait no longer once they are NotifyBatch. A NotifyDelay of 0 means that they do not wait, a
	// NotifyBatch of 0 means BatchSize.
	NotifyDelay time.Duration
	NotifyBatch int
	// MaxKeys is the most keys that a connection tracks in the channel; with more, track is error 106. 0: 5,000.
	MaxKeys int
	// Linger is how long the node remembers a key that no client tracks any more, and the channel after its last
	// subscriber. 0: 1 s; negative: not at all.
	Linger time.Duration
	// KeyGrace is how long a key is tracked after TrackBatch.ExpireAt; the node looks in every
	// gyro.Config.PresenceUpdateInterval. 0: 25 s.
	KeyGrace time.Duration
}

// TrackRequest is a client that wants to track keys.
type TrackRequest struct {
	Channel string
	// Client and User are the IDs of the client and its user.
	Client, User string
	Batches      []TrackBatch
}

// TrackBatch has keys that a signature covers, in the client's order.
type TrackBatch struct {
	Signature string
	Keys      []string
	// ExpireAt is when the signature expires, cut to whole seconds: the client must send another one before. The zero
	// time: never. SharedPoll.Track sets it.
	ExpireAt time.Time
}

// PolledKey is a key that some client tracks.
type PolledKey struct {
	Key string
	// Version of the value that the node knows; 0 if the node needs the value, and always unless the channel is
	// Versioned. Poll may leave out a key whose version is still this one.
	Version uint64
}

// PollAnswer has the values of keys. Keys that are left out have not changed.
type PollAnswer struct {
	Values []KeyValue
	// Epoch of the versions, if the channel is Versioned. With another one than before, versions begin anew:
	// subscribers are told to subscribe again (code 2500). Empty: the same as before.
	Epoch string
}

// KeyValue is the value of a key.
type KeyValue struct {
	Key string
	// Data must be JSON unless the channel is Binary (Options.Binary).
	Data []byte
	// Version of the value, > 0, if the channel is Versioned.
	Version uint64
	// Removed says that the key exists no more: clients are told, and track it no more.
	Removed bool
	// Prev may be the value before this one. If it is the one that the node knows, clients may get the difference.
	Prev []byte
}

// Polls are the channels of a node with SharedPoll. Any goroutine may call the methods.
type Polls interface {
	// Publish gives all nodes a new value of a key in a Versioned channel. Nodes drop a value whose version is not
	// greater than the known one, and a value of a key that no client tracks. Nodes that it does not reach ask for the
	// value in their next interval.
	Publish(ctx context.Context, channel, epoch string, v KeyValue) error
	// Notify makes this node ask for keys now instead of in their next interval, or a little later if
	// SharedPoll.NotifyDelay is set. It returns how many of the keys its clients track; it ignores the others.
	Notify(channel string, keys ...string) (tracked int)
	// Size is the number of channels with subscribers on this node, and of the keys that they track.
	Size() (channels, keys int)
}
