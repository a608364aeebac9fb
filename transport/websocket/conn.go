package websocket

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// phase of a connection. It only moves forward.
type phase uint8

const (
	// phaseOpen: messages go both ways.
	phaseOpen phase = iota
	// phaseClosing: one side has asked to close; input is parsed for the client's
	// Close frame and otherwise discarded.
	phaseClosing
	// phaseFailed: the transport gave the connection up. The peer is told at once;
	// input is discarded unparsed for a while, so that the Close frame arrives.
	phaseFailed
	// phaseGone: nobody may touch the stream any more but who closes it.
	phaseGone
)

// stashSize is how much a connection that cannot write now takes ahead. It takes one
// whole frame at least, so that a Close frame can always follow; more would be beyond
// the bound of the queue that the frames come from.
const stashSize = 32 << 10

var (
	errClosed = errors.New("websocket: connection is closed")
	// wakeUp is a read deadline that makes a read return at once.
	wakeUp = time.Unix(1, 0)
)

// conn implements transport.Conn with a goroutine that reads, run, and another
// one that writes while the stream is congested, flush.
//
// The goroutines serialise their calls of the peer with peerMu. No lock is held
// that a method of transport.Conn takes, so the peer may call those from within.
type conn struct {
	handler *Handler
	stream  netio.Stream
	parser  rfc6455.Parser // of the goroutine that reads

	peerMu sync.Mutex
	peer   transport.Peer // nil before accepting and after Closed
	missed bool           // Writable was due when there was no peer

	mu       sync.Mutex
	phase    phase
	flushing bool // flush runs; nobody else writes
	stuck    bool // a flush failed: the kernel may hold bytes that nobody wants
	starved  bool // Write took less than all
	paused   bool
	farewell bool          // the Close frame is written or in pending
	resume   chan struct{} // closed when a pause ends; nil if nobody waits
	pending  *netio.Buffer // accepted, not written; whole frames after the first
	pong     []byte        // the latest pong that could not be written
	pinger   *pinger       // nil without native pings
	cause    error         // for Peer.Closed

	flushes sync.WaitGroup // begun in phases before phaseGone only
}

func newConn(h *Handler, stream netio.Stream, hs handshake) *conn {
	c := &conn{handler: h, stream: stream}
	c.parser.Limit, c.parser.Compress = h.cfg.MessageSizeLimit, hs.compress
	if hs.nativePing {
		c.pinger = new(pinger)
	}
	return c
}

// setPeer lets calls of the peer begin. What happened while it was being made is
// told now.
func (c *conn) setPeer(p transport.Peer) {
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	c.peer = p
	if c.missed {
		p.Writable()
	}
}

func (c *conn) receive(msg []byte) {
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Receive(msg)
	}
}

func (c *conn) writable() {
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer == nil {
		c.missed = true
		return
	}
	c.peer.Writable()
}

func (c *conn) closed() {
	c.mu.Lock()
	cause := c.cause
	c.mu.Unlock()
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Closed(cause)
		c.peer = nil
	}
}

// Write implements transport.Conn.
func (c *conn) Write(frames [][]byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseOpen {
		return 0, errClosed
	}
	if c.flushing {
		c.starved = true
		return 0, nil
	}
	n, err := c.stream.TryWrite(frames)
	if err != nil {
		c.loseLocked(writeError(err))
		return n, c.cause
	}
	if taken := ahead(frames, n, stashSize); taken > 0 {
		rest := skip(frames, n)
		c.queueLocked(taken, rest...)
		n += taken
		c.starved = len(skip(rest, taken)) > 0
	}
	return n, nil
}

// ahead returns how many bytes to take of frames beyond the first n, which were
// written: the rest of a frame that was begun, or the next one, and more whole frames up
// to size. It is 0 if all was written.
func ahead(frames [][]byte, n, size int) (taken int) {
	for _, run := range frames {
		if n >= len(run) {
			n -= len(run)
			continue
		}
		for at := 0; at < len(run); {
			end := at + rfc6455.FrameSize(run[at:])
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

func writeError(err error) error {
	return fmt.Errorf("websocket: %w: %w", protocol.DisconnectWriteError, err)
}

// skip returns frames without their first n bytes, without a change to the
// caller's slice: a frame begun is the first one, alone, of what is returned.
func skip(frames [][]byte, n int) [][]byte {
	for i, f := range frames {
		if n < len(f) {
			if n == 0 {
				return frames[i:]
			}
			return append([][]byte{f[n:]}, frames[i+1:]...)
		}
		n -= len(f)
	}
	return nil
}

// queueLocked copies the first size bytes of frames to what is pending and sees to it
// that it gets written.
func (c *conn) queueLocked(size int, frames ...[]byte) {
	c.pending = c.pending.Grow(size)
	for _, f := range frames {
		f = f[:min(len(f), size)]
		c.pending.B = append(c.pending.B, f...)
		size -= len(f)
	}
	if !c.flushing {
		c.flushing = true
		c.flushes.Add(1)
		go c.flush()
	}
}

// flush writes what is pending until there is nothing more, then tells the peer
// if it waits.
func (c *conn) flush() {
	defer c.flushes.Done()
	for {
		b := c.takePending()
		if b == nil {
			return
		}
		err := c.stream.Write(b.B, c.handler.cfg.WriteTimeout)
		b.Free()
		if err != nil {
			c.mu.Lock()
			c.flushing, c.stuck = false, true
			c.loseLocked(writeError(err))
			c.mu.Unlock()
			return
		}
	}
}

// takePending returns what is to be written next. With nil, the flush is over.
func (c *conn) takePending() *netio.Buffer {
	c.mu.Lock()
	b := c.pending
	c.pending = nil
	if b == nil && c.pong != nil && c.phase == phaseOpen {
		b = netio.Get(len(c.pong))
		b.B = append(b.B, c.pong...)
		c.pong = nil
	}
	if b != nil {
		c.mu.Unlock()
		return b
	}
	c.flushing = false
	starved := c.starved && c.phase == phaseOpen
	c.starved = false
	c.mu.Unlock()
	if starved {
		c.writable()
	}
	return nil
}

// loseLocked ends a connection whose stream is of no more use.
func (c *conn) loseLocked(cause error) {
	if c.phase == phaseGone {
		return
	}
	if c.phase == phaseOpen {
		c.cause = cause
	}
	c.phase = phaseGone
	c.stream.SetReadDeadline(wakeUp)
	c.resumeLocked()
}

// abandon ends a connection that nobody reads.
func (c *conn) abandon() {
	c.mu.Lock()
	c.loseLocked(errClosed)
	c.mu.Unlock()
	c.finish()
}

// Pause implements transport.Conn.
func (c *conn) Pause(pause bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = pause
	if !pause {
		c.resumeLocked()
	} else if c.pinger != nil {
		c.pinger.excused = true
	}
}

func (c *conn) resumeLocked() {
	if c.resume != nil {
		close(c.resume)
		c.resume = nil
	}
}

// awaitResume blocks during a pause and returns the phase after it.
func (c *conn) awaitResume() phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.paused && c.phase == phaseOpen {
		if c.resume == nil {
			c.resume = make(chan struct{})
		}
		resume := c.resume
		c.mu.Unlock()
		<-resume
		c.mu.Lock()
	}
	return c.phase
}
