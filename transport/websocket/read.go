package websocket

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// run reads until the connection has ended. It is the only one that closes the
// stream, and what it calls last is Peer.Closed.
func (c *conn) run(early []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.crash(&transport.Panic{Reason: r, Stack: debug.Stack()})
		}
	}()
	c.startPinging()
	if len(early) == 0 || c.consume(early) {
		c.read()
	}
	c.finish()
}

// crash ends a connection whose goroutine panicked.
func (c *conn) crash(p *transport.Panic) {
	if !c.mu.TryLock() {
		c.stream.Abort() // it panicked with the lock
		return
	}
	d := protocol.DisconnectServerError
	c.failLocked(p, uint16(d.Code), d.Reason)
	c.mu.Unlock()
	c.finish()
}

// read returns when there is nothing more to read or to parse.
func (c *conn) read() {
	for {
		c.awaitResume()
		b, err := c.stream.Read()
		if err != nil {
			c.readFailed(err)
			return
		}
		more := c.consume(b.B)
		b.Free()
		if !more {
			return
		}
	}
}

// readFailed sorts out why a read failed: the client is gone, time is up, or
// somebody wanted the goroutine to look at the phase.
func (c *conn) readFailed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == phaseFailed && errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.loseLocked(fmt.Errorf("websocket: connection lost: %w", err))
}

// consume handles data and reports whether reading goes on. It changes data. Of pings
// in a row, the last one is answered (RFC 6455 section 5.5.3).
func (c *conn) consume(data []byte) bool {
	var ping []byte
	for {
		e, rest, violation := c.parser.Next(data)
		if ping != nil && (violation != nil || e.Kind != rfc6455.EventPing) {
			c.answerPing(ping)
			ping = nil
		}
		if violation == nil && e.Kind == rfc6455.EventMessage {
			violation = c.message(e)
		}
		if violation != nil {
			c.mu.Lock()
			c.failLocked(violation, violation.Code, violation.Reason)
			c.mu.Unlock()
			return false
		}
		switch e.Kind {
		case rfc6455.EventNone:
			return true
		case rfc6455.EventPing:
			ping = e.Payload[:len(e.Payload):len(e.Payload)]
		case rfc6455.EventPong:
			c.pongReceived()
		case rfc6455.EventClose:
			c.closeByClient(e)
			return false
		}
		data = rest
	}
}

// message hands a message over, unless the connection is closed from this side.
func (c *conn) message(e rfc6455.Event) *CloseError {
	if c.awaitResume() == phaseClosing {
		return nil
	}
	if !e.Compressed {
		c.receive(e.Payload)
		return nil
	}
	b, violation := e.Inflate(c.handler.cfg.DecompressedMessageSizeLimit)
	if violation != nil {
		return violation
	}
	defer b.Free()
	c.receive(b.B)
	return nil
}
