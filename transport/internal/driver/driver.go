// Package driver runs connections: LoopConn on a loop of the core, StreamConn with
// goroutines. A driver owns the socket or stream, the queue of what the client has not
// taken, pauses, deadlines and the end of a connection. What the bytes mean is the
// business of an Endpoint: a driver knows no protocol.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// Endpoint is the server's end of one connection in some protocol. Received bytes and
// ticks go in; messages, bytes to write and decisions come out. An Endpoint does no I/O
// and has no clock, no goroutine and no lock.
//
// The goroutine that reads calls Next, Control, Rest and Release. Control, Begin, Tick,
// Close, Fail and FrameSize are called one at a time, by any goroutine. So Next and
// Rest must not touch what the second group uses.
type Endpoint interface {
	// Next finds the first thing in data, which it may change, and returns the bytes
	// behind it. The message is valid until the next call of Next or Release. Nothing is
	// found in no data. Next is not called after a Step to Linger or Cut.
	Next(data []byte) (found Found, message, rest []byte)
	// Control does what the control data asks for that Next has just found.
	Control() Step
	// Rest is called when Next is not called for a while: all data is used up, or
	// reading pauses. The endpoint lets go of data, and frees what it does not need.
	Rest() Step
	// Begin is called first, once the connection is accepted.
	Begin() Step
	// Tick is called when the time has passed that a Step set. congested tells that the
	// client does not take what was written, held that reading was paused at some time
	// since the previous tick.
	Tick(congested, held bool) Step
	// Close ends the connection because the core wants it to end with d.
	Close(d protocol.Disconnect) Step
	// Fail ends the connection with d because of cause, which is the server's fault.
	Fail(d protocol.Disconnect, cause error) Step
	// FrameSize is the length of the frame that b begins with, one that the core or the
	// endpoint wrote; len(b) if not all of it is there.
	FrameSize(b []byte) int
	// Timeouts are the same at any time.
	Timeouts() Timeouts
	// Release frees all memory. It is the last call.
	Release()
}

// Found is what Endpoint.Next has found.
type Found uint8

// What Endpoint.Next finds.
const (
	Nothing Found = iota // all data is used up
	Message              // for the peer
	Control              // for Endpoint.Control
)

// Step is what a driver does next for an endpoint.
type Step struct {
	// Write goes out between two frames, or last of all if the connection ends. When the
	// client is slow, only the newest of several waits for it.
	Write []byte
	// Tick is the time until the next call of Endpoint.Tick. 0: as it was.
	Tick time.Duration
	// End of the connection. Once it is not GoOn, Write and Tick of later steps do not
	// count unless they have an End, too.
	End End
	// Cause is for Peer.Closed. The first one counts.
	Cause error
}

// End is how a connection ends. It begins when the last bytes are written.
type End uint8

// The ends of a connection. A later one can take the place of an earlier one.
const (
	// GoOn is no end.
	GoOn End = iota
	// Await waits for the client to end the connection, for up to Timeouts.Close. The
	// endpoint still gets what is received; messages are dropped.
	Await
	// Linger ends the outgoing direction and discards what is received until the client
	// ends the connection too, for up to Timeouts.Close. Closing with input unread would
	// reset the connection, and the client might never see the last bytes. The peer is
	// told at once.
	Linger
	// Cut closes the connection.
	Cut
)

// phase of a connection. It only moves forward.
type phase uint8

const (
	open      = phase(GoOn)
	awaiting  = phase(Await)
	lingering = phase(Linger)
	cutting   = phase(Cut)
	gone      = cutting + 1 // the socket is of no more use
	over      = gone + 1    // and closed
)

// Timeouts of a connection.
type Timeouts struct {
	// Write is how long the client may take for what could not be written at once.
	Write time.Duration
	// Close is how long the end of the connection is awaited from the client.
	Close time.Duration
}

// Candidate is a connection that is to be accepted.
type Candidate struct {
	// Ctx and Info are for the acceptor.
	Ctx  context.Context
	Info transport.Info
	// Early was received already.
	Early []byte
	// Watched tells that the loop watches the socket, for whoever read Early.
	Watched bool
}

// pointer is how the methods of an endpoint of type E are called. Connections hold E
// itself, so that each is one allocation.
type pointer[E any] interface {
	*E
	Endpoint
}

// lastReads is how often a connection that broke is read from at most, for what the
// client sent before.
const lastReads = 16

var errClosed = errors.New("transport: connection is closed")

// WriteError is the error of a connection that cannot be written to because of err.
func WriteError(err error) error {
	return fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, err)
}

func lostError(err error) error { return fmt.Errorf("transport: connection lost: %w", err) }

// refusalOf is the disconnect for a client that was not accepted.
func refusalOf(err error) protocol.Disconnect {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return d
}

// ahead returns how many bytes to take of frames beyond the first n, which were
// written: the rest of a frame that was begun, or the next one, and more whole frames up
// to size. It is 0 if all was written.
func ahead(e Endpoint, frames [][]byte, n, size int) (taken int) {
	for _, run := range frames {
		if n >= len(run) {
			n -= len(run)
			continue
		}
		for at := 0; at < len(run); {
			end := at + e.FrameSize(run[at:])
			if end > n {
				rest := end - max(at, n)
				if taken > 0 && taken+rest > size {
					return taken
				}
				taken += rest
			}
			at = end
		}
		n = 0
	}
	return taken
}

// skip returns frames without their first n bytes, without a change to the
// caller's slice: a frame that was begun is the first one, alone, of what is returned.
func skip(frames [][]byte, n int) [][]byte {
	for len(frames) > 0 && n >= len(frames[0]) {
		n -= len(frames[0])
		frames = frames[1:]
	}
	if n == 0 {
		return frames
	}
	return append([][]byte{frames[0][n:]}, frames[1:]...)
}
