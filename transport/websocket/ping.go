package websocket

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// pinger is the state of native pings, guarded by conn.mu.
type pinger struct {
	timer    *time.Timer
	awaiting bool // a ping is unanswered
	excused  bool // reading was paused since the last tick: a pong may lie unread
}

var pingFrame = rfc6455.ControlFrame(rfc6455.OpPing, nil)

func (c *conn) startPinging() {
	if c.pinger == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinger.timer = time.AfterFunc(c.handler.cfg.PingInterval, c.pingTime)
}

func (c *conn) stopPingingLocked() {
	if c.pinger != nil && c.pinger.timer != nil {
		c.pinger.timer.Stop()
	}
}

// pingTime sends a ping, or ends a connection whose last one was not answered.
func (c *conn) pingTime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != phaseOpen {
		return
	}
	if c.pinger.awaiting && !c.pinger.excused {
		d := protocol.DisconnectNoPong
		c.failLocked(d, uint16(d.Code), d.Reason)
		return
	}
	if !c.pinger.awaiting && !c.flushing { // congestion has a timeout of its own
		c.pinger.awaiting = true
		c.writeControlLocked(pingFrame)
	}
	c.pinger.excused = c.paused
	c.pinger.timer.Reset(c.handler.cfg.PongTimeout)
}

func (c *conn) pongReceived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pinger != nil && c.pinger.awaiting && c.phase == phaseOpen {
		c.pinger.awaiting = false
		c.pinger.timer.Reset(c.handler.cfg.PingInterval)
	}
}

// answerPing sends a pong. While one cannot be sent, only the latest is kept, as
// RFC 6455 section 5.5.3 allows.
func (c *conn) answerPing(payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase != phaseOpen:
	case c.flushing:
		c.pong = rfc6455.ControlFrame(rfc6455.OpPong, payload)
	default:
		c.writeControlLocked(rfc6455.ControlFrame(rfc6455.OpPong, payload))
	}
}

// writeControlLocked writes a control frame between data frames. Nobody else may
// be writing.
func (c *conn) writeControlLocked(frame []byte) {
	n, err := c.stream.TryWrite([][]byte{frame})
	if err != nil {
		c.loseLocked(writeError(err))
		return
	}
	if n < len(frame) {
		c.queueLocked(len(frame)-n, frame[n:])
	}
}
