// Package driver runs connections: LoopConn on a loop of the core, StreamConn with
// goroutines. A driver owns the socket or stream, the bytes that the client has not taken,
// pauses, deadlines and the end of a connection. It knows no protocol: an Endpoint does.
package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Endpoint is the server's end of one connection in some protocol. Received bytes and
// ticks go in; messages, bytes to write and decisions come out. An Endpoint does no I/O
// and has no clock, no goroutine and no lock.
//
// The goroutine that reads calls Next, Control, Rest and Release. Any goroutine calls Control, Begin, Tick, Close, Fail
// and FrameSize, one at a time, but perhaps during Next or Rest: these two must not touch the state that the others
// use.
type Endpoint interface {
	// Next finds the first message or control data in data, which it may change, and
	// returns the bytes after it. The message is valid until the next call of Next or
	// Release. Next is not called after a Step to Linger or Cut.
	Next(data []byte) (found Found, message, rest []byte)
	// Control handles the control data that Next has just found.
	Control() Step
	// Rest is called when all data is used up or reading pauses, so that Next is not
	// called for a while. The endpoint must not use data any more, and frees memory.
	Rest() Step
	// Begin is called first, once the connection is accepted.
	Begin() Step
	// Tick is called when the time of a Step has passed. congested tells that the client does not take the written
	// bytes, held that reading was paused at some time since the previous tick.
	Tick(congested, held bool) Step
	// Close ends the connection with d because the core asks for it.
	Close(d protocol.Disconnect) Step
	// Overdue ends the connection because the client has not ended it within
	// Timeouts.Await of a Step to Await.
	Overdue() Step
	// Fail ends the connection with d because of cause: a fault of the server, or because
	// the core does not accept the connection.
	Fail(d protocol.Disconnect, cause error) Step
	// FrameSize returns the length of the first frame in b, which the core or the endpoint
	// wrote; len(b) if the frame is not complete.
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
	Nothing Found = iota // all data is used up
	Message              // for the peer
	Control              // for Endpoint.Control
)

// Step tells a driver its next actions for an endpoint.
type Step struct {
	// Write goes out between two frames, or after all frames if the connection ends. While
	// the client is slow, a later Write replaces one that waits.
	Write []byte
	// Tick is the time until the next call of Endpoint.Tick; 0 leaves it as it was.
	Tick time.Duration
	// End of the connection. After a step with an End, Write and Tick of steps without one
	// do not count.
	End End
	// Cause is for Peer.Closed. The first one counts.
	Cause error
}

// End is how a connection ends, once the last bytes are written.
type End uint8

// The ends of a connection. One that stands later here can replace an earlier one.
const (
	// GoOn is no end.
	GoOn End = iota
	// Await waits up to Timeouts.Await for the client to end the connection. The endpoint
	// still gets received bytes; messages are dropped. Endpoint.Overdue follows.
	Await
	// Linger ends the outgoing direction, and discards received bytes for up to
	// Timeouts.Close, until the client ends the connection too. (Closing a socket with
	// unread bytes would reset the connection, and the client might never see the last
	// bytes.) The peer is told at once.
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
	gone      = cutting + 1 // the socket can no longer be used
	over      = gone + 1    // the socket is closed
)

// Timeouts of a connection.
type Timeouts struct {
	// Write is how long the client may take to accept bytes that could not be written at
	// once.
	Write time.Duration
	// Await and Close are how long the driver waits for the client to end the connection,
	// after a Step to Await and after one to Linger.
	Await, Close time.Duration
}

// Candidate is a connection that is not accepted yet.
type Candidate struct {
	// Ctx and Info are for the acceptor.
	Ctx  context.Context
	Info transport.Info
	// Message is for the peer, before the messages that the endpoint finds; nil: none. It is valid until Start returns,
	// for other drivers forever.
	Message []byte
	// Early has the bytes that were received already.
	Early []byte
	// Watched tells that the loop watches the socket already, for another watcher.
	Watched bool
	// TLS lies between a LoopConn and the socket; nil: plaintext.
	TLS *netio.TLS
}

// pointer has the methods of an endpoint of type E. Connections hold the E itself and not a
// pointer, so that a connection is one allocation.
type pointer[E any] interface {
	*E
	Endpoint
}

// lastReads bounds the reads of the bytes that a client sent before its connection broke.
const lastReads = 16

var errClosed = errors.New("transport: connection is closed")

// WriteError returns the error of a connection after writing failed with err.
func WriteError(err error) error {
	return fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, err)
}

func lostError(err error) error { return fmt.Errorf("transport: connection lost: %w", err) }

// refusalOf returns the disconnect for a client that was not accepted because of err.
func refusalOf(err error) protocol.Disconnect {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return d
}

// ahead returns how many bytes of frames to queue after the first n bytes, which were written:
// the rest of the frame that they end in, or else the next frame, and then more whole frames,
// up to size bytes in all. It is 0 if everything was written.
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

// skip returns frames without their first n bytes. It does not change the caller's slice.
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
