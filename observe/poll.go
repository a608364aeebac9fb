package observe

import "time"

// Polled is an event of a shared poll channel: a call of channel.SharedPoll.Poll, the end of a cycle in which
// all keys of the channel were asked for, a value that was published, or keys of which the node was notified.
type Polled struct {
	Kind    PollKind
	Channel string
	// Keys that the call asked for, that the cycle had, or that the notification named. Changed, Unchanged and
	// Removed are those of the answer; a value that was published has Changed 1 if it was taken.
	Keys, Changed, Unchanged, Removed int
	// Waited is how long the call waited for others to end, Took how long it took, or how long the cycle took
	// from its begin to its last answer. Work is how long all calls of the cycle took together.
	Waited, Took, Work time.Duration
	// Failed: the call had no answer, or the notification named none that is tracked.
	Failed bool
}

// PollKind is what a Polled tells of.
type PollKind uint8

// Kinds of Polled. The first three are calls, by what they were made for.
const (
	PollInterval PollKind = iota // the interval
	PollTrack                    // a client that tracks keys
	PollNotify                   // a notification
	PollCycle
	PollPublished
	PollNotified
)

// String returns the name of the kind: for a call, what it was made for.
func (k PollKind) String() string {
	return [...]string{"interval", "track", "notify", "cycle", "publish", "notified"}[k]
}
