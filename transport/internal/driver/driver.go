// Package driver runs connections: LoopConn on a loop of the core, StreamConn with goroutines. A driver owns the socket
// or stream, the bytes that the client has not taken, pauses, deadlines and the end. It knows no protocol: a
// transport.Endpoint does.
package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// phase of a connection. It only moves forward.
type phase uint8

const (
	open      = phase(transport.EndNone)
	awaiting  = phase(transport.EndAwait)
	lingering = phase(transport.EndLinger)
	cutting   = phase(transport.EndCut)
	gone      = cutting + 1
	closed    = gone + 1
)

// Candidate is a connection that is not accepted yet.
type Candidate struct {
	// Ctx and Info are for the acceptor.
	Ctx  context.Context
	Info transport.Info
	// Message is for the peer, before the messages that the endpoint finds; nil: none. LoopConn uses it until Start
	// returns, other drivers forever.
	Message []byte
	// Early has bytes that were received already.
	Early []byte
	// Watched tells that the loop watches the socket already, for another watcher.
	Watched bool
	// TLS lies between a LoopConn and the socket; nil: plaintext.
	TLS *netio.TLS
}

// pointer has the methods of an endpoint of type E. Connections hold the E itself, so that a LoopConn of a WebSocket is
// one allocation of 80 bytes. An interface value beside the E would make it 96, an interface value alone two allocations
// with 104. For the same reason, 16 bytes, the methods of conn get their driver as an argument.
type pointer[E any] interface {
	*E
	transport.Endpoint
}

// lastReads bounds the reads of the bytes that a client sent before its connection broke.
const lastReads = 16

var errClosed = errors.New("transport: connection is closed")

// WriteError is the error of a connection after writing failed with err.
func WriteError(err error) error {
	return fmt.Errorf("transport: %w: %w", protocol.DisconnectWriteError, err)
}

func lostError(err error) error { return fmt.Errorf("transport: connection lost: %w", err) }

// refusalOf returns the disconnect in err, of a client that was not accepted.
func refusalOf(err error) protocol.Disconnect {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return d
}

// ahead returns how many bytes of frames to queue after the n that were written: the rest of their last frame, or else
// the next frame, and then more whole frames, up to size bytes in all.
func ahead(e transport.Endpoint, frames [][]byte, n, size int) (taken int) {
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

// skip returns frames without their first n bytes, in a new slice.
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
