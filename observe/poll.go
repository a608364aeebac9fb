package observe

import "time"

// Polled is an event of a shared poll channel: a call of channel.SharedPoll.Poll, the end of a cycle that asked for all
// its keys, a published value, or a notification about keys.
type Polled struct {
	Kind    PollKind
	Channel string
	// Keys of the call, of the cycle or of the notification. The others are the counts of the answer; a published value
	// has Changed 1 if it was taken.
	Keys, Changed, Unchanged, Removed int
	// Waited is how long the call waited for other calls. Took is the duration of the call, or of the cycle from its
	// begin to its last answer. Work is how long all calls of the cycle took together.
	Waited, Took, Work time.Duration
	// Failed: the call had no answer, or no client tracks a key of the notification.
	Failed bool
}

type PollKind uint8

// The first three are calls, by their cause.
const (
	PollInterval PollKind = iota // the interval
	PollTrack                    // a client that tracks keys
	PollNotify                   // a notification
	PollCycle
	PollPublished
	PollNotified
)

// String returns the name of the kind: for a call, its cause.
func (k PollKind) String() string {
	return [...]string{"interval", "track", "notify", "cycle", "publish", "notified"}[k]
}
