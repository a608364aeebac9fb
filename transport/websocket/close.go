package websocket

import (
	"math"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// CloseError is what Peer.Closed gets when the connection ended by a Close frame
// that the client sent, or by one that the transport sent because the client
// broke the rules of WebSocket. (After Conn.Close it gets that disconnect.)
// Code is of RFC 6455 section 7.4, 1005 if the client's frame had none; Reason is as in
// the frame; ByClient tells whose frame it was.
type CloseError = rfc6455.CloseError

// Close implements transport.Conn: frames go out, then a Close frame with d, then
// the client's Close frame is awaited, for Config.CloseTimeout at most. A write
// that does not get through ends it sooner.
//
// Two disconnects are special. With DisconnectConnectionClosed the connection is
// cut without a word. With code 0 there is no Close frame: input is discarded for
// up to Config.CloseTimeout, so that the client, which was told in frames, closes
// first (client-protocol.md section 7.5).
func (c *conn) Close(d protocol.Disconnect, frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseOpen {
		return
	}
	if d.Code == protocol.DisconnectConnectionClosed.Code {
		c.loseLocked(d)
		return
	}
	c.phase, c.cause = phaseClosing, d
	c.resumeLocked()
	c.stream.SetReadDeadline(time.Now().Add(c.handler.cfg.CloseTimeout))
	c.writeLastLocked(frames, farewell(d))
}

// farewell is the Close frame for a disconnect: none for code 0.
func farewell(d protocol.Disconnect) []byte {
	if d.Code == 0 {
		return nil
	}
	return rfc6455.CloseFrame(wireCode(d.Code), d.Reason)
}

// wireCode is what a Close frame can hold of a code, which applications choose as
// they like: 0, for a frame without status, instead of one of more than 16 bits.
func wireCode(code uint32) uint16 {
	if code > math.MaxUint16 {
		return 0
	}
	return uint16(code)
}

// closeByClient answers the client's Close frame, if it needs an answer.
func (c *conn) closeByClient(e rfc6455.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == phaseOpen {
		c.phase, c.cause = phaseClosing, e.CloseError()
	}
	if c.phase == phaseClosing && !c.farewell {
		c.writeLastLocked(nil, rfc6455.CloseFrame(e.Code, ""))
	}
}

// failLocked gives the connection up from the transport's side, with a Close frame
// unless the client was promised that there is none.
func (c *conn) failLocked(cause error, code uint16, reason string) {
	switch c.phase {
	case phaseOpen:
		c.cause = cause
		c.phase = phaseFailed
		c.writeLastLocked(nil, rfc6455.CloseFrame(code, reason))
	case phaseClosing:
		c.phase = phaseFailed
	default:
		return
	}
	if c.phase == phaseFailed { // else the write found the stream lost
		c.stream.SetReadDeadline(wakeUp)
		c.resumeLocked()
	}
}

// writeLastLocked writes or queues the last that goes out. A nil last is none.
func (c *conn) writeLastLocked(frames [][]byte, last []byte) {
	out := make([][]byte, 0, len(frames)+1)
	out = append(out, frames...)
	if last != nil {
		c.farewell = true
		out = append(out, last)
	}
	if !c.flushing {
		n, err := c.stream.TryWrite(out)
		if err != nil {
			c.loseLocked(writeError(err))
			return
		}
		out = skip(out, n)
	}
	size := 0
	for _, f := range out {
		size += len(f)
	}
	if size > 0 {
		c.queueLocked(size, out...)
	}
}

// finish ends the connection after the reading of frames is over.
func (c *conn) finish() {
	c.mu.Lock()
	ph, blocked := c.phase, c.flushing
	c.stopPingingLocked()
	c.mu.Unlock()
	switch {
	case ph == phaseFailed:
		c.closed()
		c.flushes.Wait()
		c.linger()
	case ph == phaseGone && blocked:
		c.stream.Abort() // lets the flush fail
	}
	c.flushes.Wait()

	c.mu.Lock()
	c.phase = phaseGone
	c.pending.Free()
	c.pending, c.pong = nil, nil
	stuck := c.stuck
	c.mu.Unlock()
	c.parser.Release()
	if stuck {
		c.stream.Abort()
	} else {
		c.stream.Close()
	}
	c.closed()
}

// linger discards input until the client ends it too. Closing with input unread
// would reset the connection, and the client might never see the Close frame.
func (c *conn) linger() {
	c.mu.Lock()
	lost := c.phase == phaseGone
	if !lost {
		c.stream.SetReadDeadline(time.Now().Add(c.handler.cfg.CloseTimeout))
	}
	c.mu.Unlock()
	if lost {
		return
	}
	c.stream.CloseWrite()
	for {
		b, err := c.stream.Read()
		if err != nil {
			return
		}
		b.Free()
	}
}
