package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// Env is the environment that the owner gives a session. The session calls Env only within calls of its own methods.
type Env interface {
	Clock
	Output
	Workers
	Subscribers
	Clients
	Turns
	Reports
}

// Clock of a session.
type Clock interface {
	// Now is the time of the current turn in nanoseconds of the Unix epoch.
	Now() int64
	// Phase returns a number in [0, n). Sessions that start one after the other get the
	// same number for the same n, up to 64 of them; then it changes.
	Phase(n int64) int64
	// Schedule sets the session's only deadline, after which the owner calls Tick; 0 for none.
	Schedule(at int64)
}

// Output has the memory for messages to the client.
type Output interface {
	// Pool of the owner's queues.
	Pool() *sendqueue.Pool
	// Scratch of the loop. Only this session uses it while one of its methods runs.
	Scratch() *Scratch
	// Dirty asks for Flush at the end of the turn.
	Dirty()
}

// Workers do what may block.
type Workers interface {
	// Do does an effect at once and returns true, or starts it and returns false. Only in
	// the second case the owner calls Complete for it.
	Do(e effect.Effect) (done bool)
	// Feed runs the feed of a live subscription: beside the loop, which its publications reach by
	// Subscription.Fed, and its end by Subscription.FeedEnded.
	Feed(b *Subscription, f channel.Feed)
}

// Subscribers of the loop: the hub.
type Subscribers interface {
	// Join seats a subscription in the hub, Part takes it out if it has a seat.
	Join(b *Subscription)
	Part(b *Subscription)
	// Finish delivers to a subscription, before it ends, all that was published so far.
	Finish(b *Subscription)
}

// Clients are the registry of the node's clients.
type Clients interface {
	// ID of the client.
	ID() string
	// Register makes an authenticated session addressable, whose connect request is req. It returns false if
	// the user has too many connections. Unregister follows each successful Register.
	Register(req *protocol.ConnectRequest) bool
	Unregister()
	// SessionID of a registered session whose kind has Sessions.
	SessionID() string
	// Gone says that the client has gone while the session goes on with its earlier commands.
	Gone()
	// Closed says that the session has ended.
	Closed(d protocol.Disconnect)
}

// Turns share a loop among its clients.
type Turns interface {
	// Allowance is how many commands the session may still dispatch in this turn; the
	// session counts it down. At 0 or below the session calls Again and waits for Resume,
	// so that other clients get their turn.
	Allowance() *int
	Again()
}

// Reports tell operators and the observer of a session.
type Reports interface {
	// Counts counts the actions of the client; nil if the node has no observer.
	Counts() *clientmetrics.Counter
	// Pong says that the client has answered the ping that was sent at a time.
	Pong(at int64)
	// Note records what happened to the client, at ch if that is not empty.
	Note(k inspect.Kind, ch string, code uint32, count int, text string)
	// Refused says that a limit was reached; ch is empty if it does not concern a channel.
	Refused(l observe.Limit, ch string)
	// Explain tells why the session refuses something, at ch if that is not empty; nil is nothing.
	Explain(kind, ch string, why error)
}
