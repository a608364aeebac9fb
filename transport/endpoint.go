package transport

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Endpoint is the server's end of one connection in some protocol. Received bytes and ticks go in; messages, bytes to
// write and decisions come out. A driver (package driver) does the I/O. An Endpoint has no clock, goroutine and lock.
//
// The driver calls Next, Control, Rest and Release one at a time, in the order of the received bytes. It calls
// Control, Begin, Tick, Close, Overdue, Fail and FrameSize one at a time, but perhaps from another goroutine during
// Next or Rest: these two must not touch the state that the others use.
type Endpoint interface {
	// Next finds the first message or control data in data, which it may change, and returns the bytes after it. The
	// message is valid until the next call of Next or Release. Next is not called after a Step to EndLinger or
	// EndCut.
	Next(data []byte) (found Found, message, rest []byte)
	// Control handles the control data that Next has just found.
	Control() Step
	// Rest is called when all data is used up or reading pauses. The endpoint must not use data any more, and frees
	// memory.
	Rest() Step
	// Begin is called first, once the connection is accepted.
	Begin() Step
	// Tick is called when the time of a Step has passed. congested: the client does not take the written bytes.
	// wasPaused: reading was paused at some time since the previous tick.
	Tick(congested, wasPaused bool) Step
	// Close ends the connection with d because the core asks for it.
	Close(d protocol.Disconnect) Step
	// Overdue ends a connection that the client has not ended within Timeouts.Await of a Step to EndAwait.
	Overdue() Step
	// Fail ends the connection with d because of cause: a fault of the server, or the core does not accept it.
	Fail(d protocol.Disconnect, cause error) Step
	// FrameSize returns the length of the first frame in b, which the core or the endpoint wrote; len(b) if it is
	// incomplete.
	FrameSize(b []byte) int
	// Timeouts returns the same at any time.
	Timeouts() Timeouts
	// Release frees all memory. It is the last call.
	Release()
}

// Found says whether Endpoint.Next has found a message, control data or nothing.
type Found uint8

// Results of Endpoint.Next.
const (
	FoundNothing Found = iota // all data is used up
	FoundMessage              // for the peer
	FoundControl              // for Endpoint.Control
)

// Step tells a driver what to do for an endpoint. The zero value: nothing.
type Step struct {
	// Write goes out between two frames, or after all frames if the connection ends. While the client is slow, a
	// later Write replaces one that waits.
	Write []byte
	// Tick is the time until the next call of Endpoint.Tick; 0 leaves it as it was.
	Tick time.Duration
	// End of the connection. After it, Write and Tick of steps without one do not count.
	End End
	// Cause is for Peer.Closed. The first one counts.
	Cause error
}

// End is how a connection ends, once the last bytes are written.
type End uint8

// The ends of a connection. One that stands later here can replace an earlier one.
const (
	// EndNone: the connection goes on.
	EndNone End = iota
	// EndAwait waits up to Timeouts.Await for the client to end the connection. The endpoint still gets received
	// bytes; messages are dropped. Endpoint.Overdue follows.
	EndAwait
	// EndLinger ends the outgoing direction, and discards received bytes for up to Timeouts.Close, until the client
	// ends the connection. (Closing a socket with unread bytes would reset the connection, and the client might not
	// see the last bytes.) The peer is told at once.
	EndLinger
	// EndCut closes the connection.
	EndCut
)

// Timeouts of a connection.
type Timeouts struct {
	// Write is how long the client may take to accept bytes that wait.
	Write time.Duration
	// Await and Close are how long the driver waits for the client after EndAwait and after EndLinger.
	Await, Close time.Duration
}
