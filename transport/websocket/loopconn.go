package websocket

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// loopConn implements transport.Conn on a loop of the core, which watches its
// socket. Everything happens on the loop: there is no lock and no goroutine, and an
// idle connection holds no buffer. It keeps the rules of conn.
type loopConn struct {
	handler *Handler
	loop    transport.Loop
	peer    transport.Peer  // nil before accepting and after Closed
	out     *netio.Buffer   // accepted, not written; whole frames after the first
	parser  *rfc6455.Parser // nil between messages
	extra   *extra          // nil while there is nothing of it
	fd      int32
	phase   phase

	compress bool // permessage-deflate was negotiated
	starved  bool // Write took less than all
	paused   bool
	last     bool // the Close frame is written or in out
	ending   bool // nothing is left to do but to write what is in out
	stuck    bool // lost with bytes left: what the kernel holds is not wanted either
	broken   bool // lost, but the client may still be heard

	watched, watchRead, watchWrite bool
	finished                       bool
}

// extra is what hardly any connection has at a given time.
type extra struct {
	timer  transport.Timer // ends congestion, or the wait for the client's Close frame
	pinger *loopPinger     // nil without native pings
	in     *netio.Buffer   // read, not parsed: reading was paused
	parsed int             // bytes of in, all the same
	pong   []byte          // the latest pong that could not be written
	cause  error           // for Peer.Closed
}

// newLoopConn makes a connection of fd, which is its own from here on.
func (h *Handler) newLoopConn(l transport.Loop, fd uintptr, accept acceptance) *loopConn {
	c := &loopConn{handler: h, loop: l, fd: int32(fd), compress: accept.hs.compress}
	if accept.hs.nativePing {
		c.more().pinger = new(loopPinger)
	}
	return c
}

// more is extra, made if need be.
func (c *loopConn) more() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

// trim lets extra go if nothing of it is in use.
func (c *loopConn) trim() {
	if x := c.extra; x != nil && x.timer == nil && x.pinger == nil && x.in == nil && x.pong == nil && x.cause == nil {
		c.extra = nil
	}
}

// unread is what was read and not parsed.
func (c *loopConn) unread() *netio.Buffer {
	if c.extra == nil {
		return nil
	}
	return c.extra.in
}

func (c *loopConn) pinger() *loopPinger {
	if c.extra == nil {
		return nil
	}
	return c.extra.pinger
}

// serveOn runs a connection on a loop.
func (h *Handler) serveOn(l transport.Loop, a transport.LoopAcceptor, fd uintptr, accept acceptance) {
	c := h.newLoopConn(l, fd, accept)
	if !l.Post(func() { c.start(a, accept) }) {
		netio.CloseFD(fd, true)
	}
}

// start hands the connection to the acceptor and begins to read.
func (c *loopConn) start(a transport.LoopAcceptor, accept acceptance) {
	var err error
	if c.peer, err = a.AcceptOn(c.loop, accept.ctx, c, accept.info); err != nil {
		c.refuse(refusalOf(err), accept)
		return
	}
	c.watched, c.watchRead = true, true
	if err := c.loop.Watch(int(c.fd), c, true, false); err != nil {
		c.watched = accept.watched
		c.lose(err)
		return
	}
	c.rewatch()
	c.startPinging()
	if len(accept.early) > 0 {
		c.take(accept.early)
	}
}

// refuse leaves the farewell to a goroutine: the loop may end before it is over.
func (c *loopConn) refuse(d protocol.Disconnect, accept acceptance) {
	if accept.watched {
		c.loop.Unwatch(int(c.fd))
	}
	nc, err := netio.Attach(uintptr(c.fd))
	if err != nil {
		return
	}
	g := newConn(c.handler, netio.NewStream(nc), accept.hs)
	g.Close(d, nil)
	go g.run(accept.early)
}

// rewatch tells the loop what to watch the socket for, if that has changed.
func (c *loopConn) rewatch() {
	read, write := !c.paused || c.phase != phaseOpen, c.out != nil
	if !c.watched || read == c.watchRead && write == c.watchWrite {
		return
	}
	c.watchRead, c.watchWrite = read, write
	if err := c.loop.Change(int(c.fd), read, write); err != nil {
		c.lose(err)
	}
}

// Ready implements transport.Watcher.
func (c *loopConn) Ready(readable, writable bool) {
	if writable && c.out != nil {
		c.flush()
	}
	if !readable || c.finished || c.phase == phaseGone {
		return
	}
	buf := c.loop.Buffer()
	n, err := netio.TryRead(uintptr(c.fd), buf)
	if err != nil {
		c.broken = c.phase == phaseOpen
		c.lose(fmt.Errorf("websocket: connection lost: %w", err))
		return
	}
	c.take(buf[:n])
}

// take handles what was read. It changes data.
func (c *loopConn) take(data []byte) {
	switch {
	case c.phase > phaseClosing || c.ending: // nobody cares any more
	case c.paused && c.phase == phaseOpen, c.unread() != nil:
		// Read before the pause, or the end of a connection that is broken.
		c.hold(data)
	default:
		c.hold(c.consume(data))
	}
}

func (c *loopConn) hold(data []byte) {
	if len(data) > 0 {
		x := c.more()
		x.in = x.in.Grow(len(data))
		x.in.B = append(x.in.B, data...)
	}
}

// takeHeld goes on with what was held. What is still to be held stays where it is: a
// client that has its commands held one by one does not have them copied each time.
func (c *loopConn) takeHeld() {
	x := c.extra
	b, parsed := x.in, x.parsed
	x.in, x.parsed = nil, 0
	var rest []byte
	if c.heard() {
		rest = c.consume(b.B[parsed:])
	}
	if len(rest) == 0 {
		b.Free()
		c.trim()
		return
	}
	c.more()
	c.extra.in, c.extra.parsed = b, len(b.B)-len(rest)
}

// heard tells whether somebody cares for what the client sends.
func (c *loopConn) heard() bool {
	return c.phase <= phaseClosing && !c.ending || c.phase == phaseGone && c.broken
}

var parsers = sync.Pool{New: func() any { return new(rfc6455.Parser) }}

// consume parses data and hands messages over until it is used up, reading is
// paused, or the connection ends; it returns what is to be held. Only a connection in
// the midst of a message keeps its parser.
func (c *loopConn) consume(data []byte) (rest []byte) {
	if c.parser == nil {
		c.parser = parsers.Get().(*rfc6455.Parser)
		c.parser.Limit, c.parser.Compress = c.handler.cfg.MessageSizeLimit, c.compress
	}
	var ping []byte
	rest, ping = c.feed(data)
	if c.parser != nil && c.parser.AtRest() {
		c.releaseParser()
	}
	if ping != nil {
		c.answerPing(ping)
	}
	return rest
}

func (c *loopConn) releaseParser() {
	if p := c.parser; p != nil {
		c.parser = nil
		p.Release()
		*p = rfc6455.Parser{}
		parsers.Put(p)
	}
}

// feed does the work of consume, but for the answer to the last ping: it is the only
// one that needs one (RFC 6455 section 5.5.3).
func (c *loopConn) feed(data []byte) (rest, ping []byte) {
	for {
		e, rest, violation := c.parser.Next(data)
		if violation == nil && e.Kind == rfc6455.EventMessage && (c.phase == phaseOpen || c.broken) {
			violation = c.message(e)
		}
		switch {
		case violation != nil:
			c.fail(violation, violation.Code, violation.Reason)
			return nil, ping
		case e.Kind == rfc6455.EventNone:
			return nil, ping
		case e.Kind == rfc6455.EventPing:
			ping = e.Payload[:len(e.Payload):len(e.Payload)]
		case e.Kind == rfc6455.EventPong:
			c.pongReceived()
		case e.Kind == rfc6455.EventClose:
			c.closeByClient(e)
			return nil, ping
		}
		if !c.heard() {
			return nil, ping
		}
		if c.paused && c.phase == phaseOpen {
			return rest, ping
		}
		data = rest
	}
}

func (c *loopConn) message(e rfc6455.Event) *CloseError {
	if !e.Compressed {
		c.peer.Receive(e.Payload)
		return nil
	}
	b, violation := e.Inflate(c.handler.cfg.DecompressedMessageSizeLimit)
	if violation != nil {
		return violation
	}
	defer b.Free()
	c.peer.Receive(b.B)
	return nil
}

// Pause implements transport.Conn.
func (c *loopConn) Pause(pause bool) {
	c.paused = pause
	if p := c.pinger(); pause && p != nil {
		p.excused = true
	}
	c.rewatch()
	if !pause {
		c.resume()
	}
}

// resume sees to what was read before a pause. It is the loop that does it, as the
// peer is in the midst of something now.
func (c *loopConn) resume() {
	if c.unread() == nil {
		return
	}
	c.loop.Post(func() {
		if c.unread() != nil && !(c.paused && c.phase == phaseOpen) {
			c.takeHeld()
		}
	})
}

// Write implements transport.Conn.
func (c *loopConn) Write(frames [][]byte) (int, error) {
	if c.phase != phaseOpen {
		return 0, errClosed
	}
	if c.out != nil {
		c.starved = true
		return 0, nil
	}
	n, err := netio.TryWrite(uintptr(c.fd), frames)
	if err != nil {
		c.unwritable(err)
		return n, c.cause()
	}
	// A frame that was begun is taken whole, so that a Close frame can follow.
	if taken := ahead(frames, n, 0); taken > 0 {
		rest := skip(frames, n)
		c.starved = len(rest) > 1 || taken < len(rest[0])
		c.queue([][]byte{rest[0][:taken]})
		n += taken
	}
	return n, nil
}

// queue copies frames to what is written when the socket takes more.
func (c *loopConn) queue(frames [][]byte) {
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	if size == 0 {
		return
	}
	if c.out == nil {
		c.setTimer(c.handler.cfg.WriteTimeout)
	}
	c.out = c.out.Grow(size)
	for _, f := range frames {
		c.out.B = append(c.out.B, f...)
	}
	c.rewatch()
}

// flush writes what is in out, and goes on with what waits for that.
func (c *loopConn) flush() {
	n, err := netio.TryWrite(uintptr(c.fd), [][]byte{c.out.B})
	if err != nil {
		c.unwritable(err)
		return
	}
	if n < len(c.out.B) {
		c.out.B = c.out.B[:copy(c.out.B, c.out.B[n:])]
		return
	}
	c.out.Free()
	c.out = nil
	c.stopTimer()
	c.rewatch()
	switch {
	case c.phase != phaseOpen:
		c.drained()
	case c.extra != nil && c.extra.pong != nil:
		pong := c.extra.pong
		c.extra.pong = nil
		c.writeControl(pong)
	}
	c.trim()
	if c.starved && c.phase == phaseOpen && c.out == nil {
		c.starved = false
		c.peer.Writable()
	}
}

// drained goes on with a closing connection when all is written.
func (c *loopConn) drained() {
	if c.ending {
		c.finish()
		return
	}
	if c.phase == phaseFailed {
		netio.ShutdownWrite(uintptr(c.fd))
	}
	c.setTimer(c.handler.cfg.CloseTimeout)
}

// Close implements transport.Conn, see conn.Close.
func (c *loopConn) Close(d protocol.Disconnect, frames [][]byte) {
	if c.phase != phaseOpen {
		return
	}
	if d.Code == protocol.DisconnectConnectionClosed.Code {
		c.lose(d)
		return
	}
	c.phase, c.more().cause = phaseClosing, d
	c.writeLast(frames, farewell(d))
	c.rewatch()
	c.resume()
}

// closeByClient answers the client's Close frame, if it needs an answer, and ends
// the connection.
func (c *loopConn) closeByClient(e rfc6455.Event) {
	c.ending = true
	if c.phase == phaseOpen {
		c.phase, c.more().cause = phaseClosing, e.CloseError()
	}
	var answer []byte
	if !c.last {
		answer = rfc6455.CloseFrame(e.Code, "")
	}
	c.writeLast(nil, answer)
}

// fail gives the connection up from the transport's side. The peer is told at
// once; input is discarded unparsed for a while, so that the Close frame arrives.
func (c *loopConn) fail(cause error, code uint16, reason string) {
	switch c.phase {
	case phaseOpen:
		c.phase, c.more().cause = phaseFailed, cause
		c.writeLast(nil, rfc6455.CloseFrame(code, reason))
	case phaseClosing:
		c.phase = phaseFailed
		c.writeLast(nil, nil)
	}
	if c.phase == phaseFailed { // else the write found the connection lost
		c.tell()
	}
}

// writeLast writes or queues the last that goes out. A nil last is none.
func (c *loopConn) writeLast(frames [][]byte, last []byte) {
	out := make([][]byte, 0, len(frames)+1)
	out = append(out, frames...)
	if last != nil {
		c.last = true
		out = append(out, last)
	}
	if c.out == nil {
		n, err := netio.TryWrite(uintptr(c.fd), out)
		if err != nil {
			c.lose(writeError(err))
			return
		}
		out = skip(out, n)
	}
	if c.queue(out); c.out == nil {
		c.drained()
	}
}

// lose ends a connection whose socket is of no more use. The peer may be in the
// midst of something, so it is told later.
func (c *loopConn) lose(cause error) {
	if c.phase == phaseGone {
		return
	}
	if c.phase == phaseOpen {
		c.more().cause = cause
	}
	c.phase, c.stuck = phaseGone, c.out != nil
	if !c.loop.Post(c.finish) && c.peer == nil {
		c.finish() // the loop is about to end, and there is nobody to tell
	}
}

// unwritable ends a connection that takes nothing any more. What the client sent
// before is there yet.
func (c *loopConn) unwritable(err error) {
	c.broken = c.phase == phaseOpen
	c.lose(writeError(err))
}

// lastReads is how often the socket of a connection that ends is read from at most.
const lastReads = 16

// salvage hands over what the client sent before its connection broke.
func (c *loopConn) salvage() {
	if c.unread() != nil {
		c.takeHeld()
	}
	for range lastReads {
		buf := c.loop.Buffer()
		n, err := netio.TryRead(uintptr(c.fd), buf)
		if n == 0 || err != nil {
			return
		}
		c.consume(buf[:n])
	}
}

// Ended implements transport.Watcher: the client may still owe us its Close frame.
func (c *loopConn) Ended() { c.finish() }

// finish frees everything. It is called by nothing that the peer calls.
func (c *loopConn) finish() {
	if c.finished {
		return
	}
	c.finished, c.phase = true, phaseGone
	if c.broken && c.peer != nil {
		c.salvage()
	}
	c.stopTimer()
	c.stopPinging()
	if c.watched {
		c.loop.Unwatch(int(c.fd))
	}
	netio.CloseFD(uintptr(c.fd), c.stuck)
	c.out.Free()
	c.unread().Free()
	c.out = nil
	c.releaseParser()
	c.tell()
	c.extra = nil
}

// tell is the last call of the peer.
func (c *loopConn) tell() {
	if p := c.peer; p != nil {
		c.peer = nil
		p.Closed(c.cause())
	}
}

// cause is why the connection ended.
func (c *loopConn) cause() error {
	if c.extra == nil {
		return nil
	}
	return c.extra.cause
}

func (c *loopConn) setTimer(d time.Duration) {
	c.stopTimer()
	c.more().timer = c.loop.After(d, c.expired)
}

func (c *loopConn) stopTimer() {
	if x := c.extra; x != nil && x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}

// expired: the client did not take what was written, or did not close.
func (c *loopConn) expired() {
	c.extra.timer = nil
	if c.out != nil {
		c.lose(writeError(os.ErrDeadlineExceeded))
		return
	}
	c.finish()
}

// refusalOf is the disconnect for a client that was not accepted.
func refusalOf(err error) protocol.Disconnect {
	d := protocol.DisconnectServerError
	errors.As(err, &d)
	return d
}

// loopPinger is the state of native pings.
type loopPinger struct {
	timer    transport.Timer
	awaiting bool // a ping is unanswered
	excused  bool // reading was paused since the last tick: a pong may lie unread
}

func (c *loopConn) startPinging() {
	if p := c.pinger(); p != nil && c.phase == phaseOpen {
		p.timer = c.loop.After(c.handler.cfg.PingInterval, c.pingTime)
	}
}

func (c *loopConn) stopPinging() {
	if p := c.pinger(); p != nil && p.timer != nil {
		p.timer.Stop()
	}
}

// pingTime sends a ping, or ends a connection whose last one was not answered.
func (c *loopConn) pingTime() {
	p := c.pinger()
	if p == nil || c.phase != phaseOpen {
		return
	}
	if p.awaiting && !p.excused {
		d := protocol.DisconnectNoPong
		c.fail(d, uint16(d.Code), d.Reason)
		return
	}
	if !p.awaiting && c.out == nil { // congestion has a timeout of its own
		p.awaiting = true
		c.writeControl(pingFrame)
	}
	p.excused = c.paused
	p.timer = c.loop.After(c.handler.cfg.PongTimeout, c.pingTime)
}

func (c *loopConn) pongReceived() {
	if p := c.pinger(); p != nil && p.awaiting && c.phase == phaseOpen {
		p.awaiting = false
		p.timer.Stop()
		p.timer = c.loop.After(c.handler.cfg.PingInterval, c.pingTime)
	}
}

// answerPing sends a pong. While one cannot be sent, only the latest is kept, as
// RFC 6455 section 5.5.3 allows.
func (c *loopConn) answerPing(payload []byte) {
	switch {
	case c.phase != phaseOpen:
	case c.out != nil:
		c.more().pong = rfc6455.ControlFrame(rfc6455.OpPong, payload)
	default:
		c.writeControl(rfc6455.ControlFrame(rfc6455.OpPong, payload))
	}
}

// writeControl writes a control frame between data frames. Nothing may be queued.
func (c *loopConn) writeControl(frame []byte) {
	starved := c.starved
	_, _ = c.Write([][]byte{frame}) // an error has ended the connection
	c.starved = starved
}
