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

// Env is the environment of a session, which calls it only within calls of its own methods.
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
	// Now is the time of the turn in Unix nanoseconds, which measures durations: it does not jump.
	Now() int64
	// Wall is what the node's clock shows in this turn, in Unix nanoseconds.
	Wall() int64
	// Phase returns a number in [0, n): the same for the same n for up to 64 sessions that start one after the other.
	Phase(n int64) int64
	// Schedule sets the only deadline, after which the owner calls Tick; 0 for none.
	Schedule(at int64)
}

// Output has the memory for messages to the client.
type Output interface {
	Pool() *sendqueue.Pool
	// Scratch is this session's alone while one of its methods runs.
	Scratch() *Scratch
	// Dirty asks for Flush at the end of the turn.
	Dirty()
}

// Workers do what may block.
type Workers interface {
	// Do does an effect at once and returns true, or starts it and calls Complete later.
	Do(e effect.Effect) (done bool)
	// Hold(true), within a completion, has the effects that wait stay until Hold(false).
	Hold(on bool)
	// Feed runs the feed of a live subscription beside the loop: its publications come by Subscription.Fed, its end by
	// Subscription.FeedEnded.
	Feed(b *Subscription, f channel.Feed)
}

// Subscribers of the loop: the hub.
type Subscribers interface {
	// Join seats a subscription, Part takes it out if it has a seat.
	Join(b *Subscription)
	Part(b *Subscription)
	// Finish delivers all that was published so far.
	Finish(b *Subscription)
}

// Clients are the registry of the node's clients.
type Clients interface {
	ID() string
	// Register makes an authenticated session addressable. It returns false if the user has too many connections.
	// Unregister follows each successful Register.
	Register(req *protocol.ConnectRequest) bool
	Unregister()
	// SessionID of a registered session whose kind has Sessions.
	SessionID() string
	// Gone says that the client has gone, and the session goes on with its earlier commands.
	Gone()
	// Closed says that the session has ended.
	Closed(d protocol.Disconnect)
}

// Turns share a loop among its clients.
type Turns interface {
	// Allowance is how many commands the session may still dispatch in this turn; it counts them down. At 0 or below it
	// calls Again and waits for Resume.
	Allowance() *int
	Again()
}

// Reports tell operators and the observer of a session.
type Reports interface {
	// Counts is nil without an observer.
	Counts() *clientmetrics.Counter
	// Pong says that the client has answered the ping of a time.
	Pong(at int64)
	// Note records an event, at ch if that is not empty.
	Note(k inspect.Kind, ch string, code uint32, count int, text string)
	// Refused says that a limit was reached, at ch if that is not empty.
	Refused(l observe.Limit, ch string)
	// Explain tells why the session refuses something; nil is nothing.
	Explain(kind, ch string, why error)
}
