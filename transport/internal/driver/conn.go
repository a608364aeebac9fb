package driver

import (
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// conn is the state of both drivers: the bytes that wait to be written, and the phase of the connection. Its methods are
// called one at a time, and get the driver, which does the I/O.
type conn[E any, P pointer[E]] struct {
	endpoint   E
	out        *netio.Buffer // bytes to be written, of TLS records if there is TLS; the first frame may be incomplete. Nil unless the client is slow.
	extra      *extra        // nil while all of it is zero
	phase      phase
	wroteShort bool // Write took less than all bytes
	paused     bool

	// used by LoopConn; here they take no room
	watch watch
	fd    int32
}

// extra has fields that few connections need at a given time.
type extra struct {
	delayed    string // the newest bytes of the endpoint that wait for out to be written
	cause      error  // for Peer.Closed
	wasPaused  bool   // reading was paused since the previous tick
	dropUnsent bool   // lost with bytes in out; the bytes in the kernel are to be dropped, too
	broken     bool   // lost, but bytes that the client sent before are still to be handed over
	tick       transport.Timer

	// used by LoopConn
	tls      *netio.TLS      // from the beginning to the end; nil: plaintext
	deadline transport.Timer // ends congestion, or the wait for the client
	unread   *netio.Buffer   // received during a pause
	parsed   int             // the first bytes of unread, which are parsed
}

type driver interface {
	tryWrite(frames [][]byte) (int, error)
	// enqueue appends p to out, which is not nil.
	enqueue(p []byte)
	// congested is called when out is no longer nil. The driver then writes it in the background.
	congested()
	// drained is called when everything is written after the end has begun.
	drained()
	// ended is called when the end begins or goes on. It must not call the peer, which may be the caller.
	ended()
	// after starts a timer that calls ticked.
	after(t time.Duration) transport.Timer
}

func (c *conn[E, P]) getExtra() *extra {
	if c.extra == nil {
		c.extra = new(extra)
	}
	return c.extra
}

func (c *conn[E, P]) trim() {
	if c.extra != nil && *c.extra == (extra{}) {
		c.extra = nil
	}
}

func (c *conn[E, P]) broken() bool { return c.extra != nil && c.extra.broken }

// listens reports whether bytes of the client are parsed.
func (c *conn[E, P]) listens() bool {
	return c.phase <= awaiting || c.phase == gone && c.broken()
}

func (c *conn[E, P]) pausing() bool { return c.paused && c.phase == open }

func (c *conn[E, P]) pause(pause bool) {
	c.paused = pause
	if x := c.extra; pause && x != nil && x.tick != nil {
		x.wasPaused = true
	}
}

// write is transport.Conn.Write. It queues up to size bytes of frames that cannot be written now, and at least the frame
// that comes next: out ends with a whole frame, and the endpoint's last bytes can follow it.
func (c *conn[E, P]) write(d driver, frames [][]byte, size int) (int, error) {
	if c.phase != open {
		return 0, errClosed
	}
	if c.out != nil {
		c.wroteShort = true
		return 0, nil
	}
	n, err := d.tryWrite(frames)
	if err != nil {
		err = WriteError(err)
		c.lose(d, err, true)
		return n, err
	}
	if taken := ahead(P(&c.endpoint), frames, n, size); taken > 0 {
		rest := skip(frames, n)
		c.queue(d, rest, taken)
		n += taken
		c.wroteShort = len(skip(rest, taken)) > 0
	}
	return n, nil
}

func (c *conn[E, P]) put(d driver, frames ...[]byte) {
	if c.out == nil {
		n, err := d.tryWrite(frames)
		if err != nil {
			c.lose(d, WriteError(err), true)
			return
		}
		frames = skip(frames, n)
	}
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	c.queue(d, frames, size)
}

func (c *conn[E, P]) queue(d driver, frames [][]byte, size int) {
	if size == 0 {
		return
	}
	begins := c.out == nil
	c.out = c.out.Grow(size)
	for _, f := range frames {
		f = f[:min(len(f), size)]
		d.enqueue(f)
		size -= len(f)
	}
	if begins {
		d.congested()
	}
}

// flushed is called when out is written. True: the peer waits for that.
func (c *conn[E, P]) flushed(d driver) (writable bool) {
	c.out.Free()
	c.out = nil
	if c.phase != open {
		d.drained()
		return false
	}
	if x := c.extra; x != nil && x.delayed != "" {
		delayed := x.delayed
		x.delayed = ""
		c.put(d, []byte(delayed))
	}
	c.trim()
	if !c.wroteShort || c.phase != open || c.out != nil {
		return false
	}
	c.wroteShort = false
	return true
}

func (c *conn[E, P]) apply(d driver, s transport.Step) {
	switch {
	case s.End != transport.EndNone:
		c.end(d, s, nil)
		return
	case c.phase != open:
		return
	case s.Tick > 0:
		x := c.getExtra()
		stop(&x.tick)
		x.tick = d.after(s.Tick)
	}
	switch {
	case s.Write == nil:
	case c.out != nil:
		c.getExtra().delayed = string(s.Write)
	default:
		c.put(d, s.Write)
	}
}

func (c *conn[E, P]) ticked(d driver) {
	if c.phase == open {
		x := c.getExtra()
		wasPaused := x.wasPaused
		x.wasPaused = c.paused
		stop(&x.tick) // may be a newer timer than the one that calls
		c.apply(d, P(&c.endpoint).Tick(c.out != nil, wasPaused))
	}
}

func (c *conn[E, P]) close(d driver, why protocol.Disconnect, frames [][]byte) {
	switch {
	case c.phase != open:
	case why.Code == protocol.DisconnectConnectionClosed.Code:
		c.lose(d, why, false)
	default:
		c.end(d, P(&c.endpoint).Close(why), frames)
	}
}

func (c *conn[E, P]) end(d driver, s transport.Step, frames [][]byte) {
	x := c.getExtra()
	if c.phase >= lingering {
		x.broken = false // the peer gets no more messages
		return
	}
	if c.phase == open {
		x.cause = s.Cause
		stop(&x.tick)
	}
	c.phase = phase(s.End)
	if c.put(d, append(frames[:len(frames):len(frames)], s.Write)...); c.phase == gone {
		return
	}
	if c.out == nil {
		d.drained()
	}
	d.ended()
}

// lose ends a connection that cannot be used any more. broke: the network ended it, so earlier messages of the client
// are still handed over.
func (c *conn[E, P]) lose(d driver, cause error, broke bool) {
	if c.phase >= gone {
		return
	}
	x := c.getExtra()
	if c.phase == open {
		x.cause, x.broken = cause, broke
		stop(&x.tick)
	}
	c.phase, x.dropUnsent = gone, c.out != nil
	d.ended()
}

func stop(t *transport.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}
