package driver

import (
	"os"
	"time"

	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// LoopConn implements transport.Conn and transport.Watcher on a loop of the core. There is no lock and no goroutine, and
// an idle connection holds no buffer.
type LoopConn[E any, P pointer[E]] struct {
	conn[E, P]
	loop transport.Loop
	peer transport.Peer // nil before accepting and after Closed
}

type watch uint8

const (
	watched watch = 1 << iota
	watchRead
	watchWrite
)

// NewLoopConn makes a connection of the socket fd, which it owns from now on.
func NewLoopConn[E any, P pointer[E]](l transport.Loop, fd uintptr, e E) *LoopConn[E, P] {
	c := &LoopConn[E, P]{loop: l}
	c.fd, c.endpoint = int32(fd), e
	return c
}

// Post is Start from other goroutines.
func (c *LoopConn[E, P]) Post(a nodeaccess.Acceptor, n Candidate) {
	if !c.loop.Post(func() { c.Start(a, n) }) {
		netio.CloseFD(uintptr(c.fd), true)
		P(&c.endpoint).Release()
	}
}

// Start hands the connection to a and begins to read.
func (c *LoopConn[E, P]) Start(a nodeaccess.Acceptor, n Candidate) {
	if n.Watched {
		c.watch = watched
	}
	c.secure(n.TLS)
	var err error
	if c.peer, err = a.AcceptOn(c.loop, n.Ctx, c, n.Info); err != nil {
		c.refuse(refusalOf(err), n.Early)
		return
	}
	if err := c.loop.Watch(int(c.fd), c, true, false); err != nil {
		c.lose(c, err, false)
		return
	}
	c.watch = watched | watchRead
	c.rewatch()
	c.apply(c, P(&c.endpoint).Begin())
	if n.Message != nil && c.phase == open {
		c.peer.Receive(n.Message)
	}
	if len(n.Early) > 0 {
		c.take(n.Early)
	}
	if n.TLS != nil && !n.Watched {
		c.Ready(true, false) // TLS may hold received bytes
	}
}

// refuse uses a goroutine, because the loop may end before the refusal is written.
func (c *LoopConn[E, P]) refuse(d protocol.Disconnect, early []byte) {
	if c.watch != 0 {
		c.loop.Unwatch(int(c.fd))
	}
	socket := netio.NewHandover(uintptr(c.fd))
	nc, err := socket.Conn()
	if err != nil {
		socket.Close()
		P(&c.endpoint).Release()
		return
	}
	if t := c.tls(); t != nil {
		nc = t.Block(nc)
	}
	s := NewStreamConn[E, P](netio.NewStream(nc), c.endpoint)
	s.refuse(d)
	go s.run(nil, early)
}

// rewatch tells the loop which events to watch, if they have changed.
func (c *LoopConn[E, P]) rewatch() {
	w := watched
	if !c.pausing() {
		w |= watchRead
	}
	if c.out != nil {
		w |= watchWrite
	}
	if c.watch == 0 || c.watch == w {
		return
	}
	c.watch = w
	if err := c.loop.Change(int(c.fd), w&watchRead != 0, w&watchWrite != 0); err != nil {
		c.lose(c, err, false)
	}
}

func (c *LoopConn[E, P]) Ready(readable, writable bool) {
	if writable && c.out != nil {
		c.flush()
	}
	if !readable || c.phase >= gone {
		return
	}
	if _, err := c.read(); err != nil {
		c.lose(c, lostError(err), true)
	}
}

func (c *LoopConn[E, P]) read() (n int, err error) {
	buf := c.loop.Buffer()
	if t := c.tls(); t != nil {
		return c.decrypt(t, buf)
	}
	if n, err = netio.TryRead(uintptr(c.fd), buf); n > 0 {
		c.take(buf[:n])
	}
	return n, err
}

func (c *LoopConn[E, P]) Ended() { c.finish() }

func (c *LoopConn[E, P]) unread() *netio.Buffer {
	if c.extra == nil {
		return nil
	}
	return c.extra.unread
}

// take handles received bytes, and changes them.
func (c *LoopConn[E, P]) take(data []byte) {
	if !c.listens() {
		return
	}
	if !c.pausing() && c.unread() == nil {
		data = c.consume(data)
	}
	if len(data) > 0 {
		x := c.getExtra()
		x.unread = x.unread.Grow(len(data))
		x.unread.B = append(x.unread.B, data...)
	}
}

// takeUnread goes on with unread. It does not copy bytes that must wait again: each of many commands may pause reading.
func (c *LoopConn[E, P]) takeUnread() {
	b := c.unread()
	if b == nil || c.pausing() {
		return
	}
	x := c.extra
	parsed := x.parsed
	x.unread, x.parsed = nil, 0
	if rest := c.consume(b.B[parsed:]); len(rest) > 0 {
		x = c.getExtra()
		x.unread, x.parsed = b, len(b.B)-len(rest)
		return
	}
	b.Free()
	c.trim()
}

// consume hands data to the endpoint, and messages to the peer. It returns the bytes that must wait.
func (c *LoopConn[E, P]) consume(data []byte) (rest []byte) {
	e := P(&c.endpoint)
	for c.listens() && !c.pausing() {
		var found transport.Found
		var message []byte
		if found, message, data = e.Next(data); found == transport.FoundNothing {
			break
		}
		if found == transport.FoundControl {
			c.apply(c, e.Control())
		} else if c.phase != awaiting {
			c.peer.Receive(message)
		}
	}
	c.apply(c, e.Rest())
	if !c.listens() {
		return nil
	}
	return data
}

func (c *LoopConn[E, P]) Pause(pause bool) {
	c.pause(pause)
	c.rewatch()
	c.resume()
}

// resume posts takeUnread, because the peer may be the caller.
func (c *LoopConn[E, P]) resume() {
	if c.unread() != nil && !c.pausing() {
		c.loop.Post(c.takeUnread)
	}
}

func (c *LoopConn[E, P]) Write(frames [][]byte) (int, error) { return c.write(c, frames, 0) }

func (c *LoopConn[E, P]) Close(d protocol.Disconnect, frames [][]byte) { c.close(c, d, frames) }

func (c *LoopConn[E, P]) tryWrite(frames [][]byte) (int, error) {
	if t := c.tls(); t != nil {
		return c.encrypt(t, frames)
	}
	return netio.TryWrite(uintptr(c.fd), frames)
}

func (c *LoopConn[E, P]) enqueue(p []byte) {
	if t := c.tls(); t != nil {
		c.encryptInto(t, p)
		return
	}
	c.out.B = append(c.out.B, p...)
}

func (c *LoopConn[E, P]) congested() {
	c.setDeadline(P(&c.endpoint).Timeouts().Write)
	c.rewatch()
}

func (c *LoopConn[E, P]) flush() {
	n, err := netio.TryWrite(uintptr(c.fd), [][]byte{c.out.B})
	if err != nil {
		c.lose(c, WriteError(err), true)
		return
	}
	if n < len(c.out.B) {
		c.out.B = c.out.B[:copy(c.out.B, c.out.B[n:])]
		return
	}
	stop(&c.extra.deadline)
	writable := c.flushed(c)
	c.rewatch()
	if writable {
		c.peer.Writable()
	}
}

func (c *LoopConn[E, P]) drained() {
	if c.phase == cutting {
		c.loop.Post(c.finish)
		return
	}
	t := P(&c.endpoint).Timeouts()
	if c.phase == awaiting {
		c.setDeadline(t.Await)
		return
	}
	if c.closeTLS(); c.out != nil {
		return // comes back when that is written
	}
	netio.ShutdownWrite(uintptr(c.fd))
	c.setDeadline(t.Close)
}

func (c *LoopConn[E, P]) ended() {
	switch c.phase {
	case lingering:
		c.loop.Post(c.notifyClosed)
	case gone:
		if !c.loop.Post(c.finish) && c.peer == nil {
			c.finish() // the loop is closed, and there is no peer to tell
		}
		return
	}
	c.rewatch()
	c.resume()
}

// readRest hands over messages that came before the connection broke.
func (c *LoopConn[E, P]) readRest() {
	c.takeUnread()
	for range lastReads {
		if n, err := c.read(); n == 0 || err != nil {
			return
		}
	}
}

// finish closes the socket and frees everything. The peer must not be its caller.
func (c *LoopConn[E, P]) finish() {
	if c.phase == closed {
		return
	}
	if c.broken() && c.peer != nil {
		c.readRest()
	}
	c.phase = closed
	x := c.getExtra()
	stop(&x.deadline)
	stop(&x.tick) // is set if the loop ends while the connection is open
	if !x.dropUnsent {
		c.closeTLS()
	}
	if c.watch != 0 {
		c.watch = 0
		c.loop.Forget(int(c.fd))
	}
	netio.CloseFD(uintptr(c.fd), x.dropUnsent)
	c.out.Free()
	x.unread.Free()
	c.out, x.unread = nil, nil
	P(&c.endpoint).Release()
	c.notifyClosed()
	c.extra = nil
}

// notifyClosed is the last call of the peer.
func (c *LoopConn[E, P]) notifyClosed() {
	if p := c.peer; p != nil {
		c.peer = nil
		p.Closed(c.getExtra().cause)
	}
}

func (c *LoopConn[E, P]) setDeadline(d time.Duration) {
	x := c.getExtra()
	stop(&x.deadline)
	x.deadline = c.loop.After(d, c.expired)
}

// expired is called when the client has not taken the written bytes, or has not ended the connection, in time.
func (c *LoopConn[E, P]) expired() {
	c.extra.deadline = nil
	switch {
	case c.out != nil:
		c.lose(c, WriteError(os.ErrDeadlineExceeded), false)
	case c.phase == awaiting:
		c.apply(c, P(&c.endpoint).Overdue())
	default:
		c.finish()
	}
}

func (c *LoopConn[E, P]) after(d time.Duration) transport.Timer {
	return c.loop.After(d, func() { c.ticked(c) })
}
