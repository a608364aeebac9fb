package front

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/quiet"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

const (
	// rearm is how much later than configured a deadline may pass: setting it for each request costs more than parsing
	// the request.
	rearm = time.Second
	// minRequest is how many bytes net/http must see before it takes them for a further request.
	minRequest = 4
	// maxIdleBuffer is how many bytes an idle connection may keep in a buffer.
	maxIdleBuffer = 4 << 10
)

const (
	stateIdle int32 = iota
	stateBusy
	stateEnded
)

// conn is a connection whose requests are for routes with Answer.
type conn struct {
	net.Conn
	answerer
	quiet  net.Conn // Conn for Read and Write, the largest part of the cost of small requests
	remote net.Addr
	addr   string // the text of remote
	state  atomic.Int32
	in     *netio.Buffer

	request Request // the last one; the next may have the same head
	route   *route  // of request
	scanned int     // the first bytes of in, which do not contain the end of the head
	size    int     // of the head at the beginning of in; 0: it is not complete
	passed  bool    // Check of the route has returned checked for the request
	checked any

	phase        phase
	armed, wrote time.Time // when the read and the write deadline were set
	broken       error     // why the rest of a body does not come
}

// phase is the part of a request that the read deadline of a conn bounds.
type phase int

const (
	phaseHead phase = iota
	phaseIdle
	phaseBody
)

var errForeign = errors.New("not a request for a route")

func newConn(l *Listener, in *incoming) *conn {
	c := &conn{Conn: in.conn, answerer: answerer{front: l}, quiet: quiet.Conn(in.conn), remote: in.remote, addr: in.remote.String(), in: netio.Get(len(in.early))}
	if c.in.B = append(c.in.B, in.early...); len(in.early) > 0 {
		c.state.Store(stateBusy)
	}
	return c
}

func (c *conn) serve() {
	defer c.front.remove(c)
	defer c.recoverPanic()
	c.armed = time.Now()
	c.deadline(c.SetReadDeadline, c.front.headTimeout)
	for {
		err := c.next()
		if err == nil {
			err = c.answer()
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errForeign) || !c.handOver() {
			_ = c.Close()
		}
		c.in.Free()
		return
	}
}

func (c *conn) recoverPanic() {
	if p := recover(); p != nil {
		c.front.recovered(p, c.addr)
		_ = c.Close()
	}
}

func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(stateIdle, stateEnded) {
		_ = c.Close()
	}
}

// handOver gives the connection to net/http. False: it has ended.
func (c *conn) handOver() bool {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return false
	}
	c.front.pass(&incoming{conn: c.Conn, remote: c.remote, early: bytes.Clone(c.in.B), broken: c.broken})
	return true
}

// next reads until a request is complete. Errors other than errForeign end the connection.
func (c *conn) next() error {
	for {
		if len(c.in.B) > 0 {
			switch c.head() {
			case foreign:
				return errForeign
			case complete:
				if !c.check() {
					return errForeign
				}
				if len(c.in.B) >= c.size+c.request.length {
					return nil
				}
				c.await(phaseBody, c.front.bodyTimeout)
			case partial:
				c.await(phaseHead, c.front.headTimeout)
			}
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

func (c *conn) check() bool {
	if !c.passed {
		c.checked, c.passed = c.route.Check(&c.request)
	}
	return c.passed
}

func (c *conn) head() matchState {
	b, q := c.in.B, &c.request
	if c.size > 0 {
		return complete
	}
	if q.again(b) && q.length <= maxBody {
		c.size = len(q.head)
		return complete
	}
	r, end, m := c.front.answers.judge(b, c.scanned, c.front.maxHead)
	c.scanned = len(b)
	if m != complete {
		return m
	}
	if !q.parse(string(b[:end])) || !r.wants(q) {
		return foreign
	}
	q.RemoteAddr = c.addr
	c.route, c.size = r, end
	return complete
}

func (c *conn) await(p phase, d time.Duration) {
	if c.phase != p {
		c.phase, c.armed = p, time.Now()
		c.deadline(c.SetReadDeadline, d)
	}
}

// deadline calls set with a deadline d to d+rearm from now; 0: none.
func (c *conn) deadline(set func(time.Time) error, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d + rearm)
	}
	_ = set(at) // if this fails, so do reads and writes
}

func (c *conn) read() error {
	had := len(c.in.B)
	if had == cap(c.in.B) {
		c.in = c.in.Grow(had)
	}
	b := c.in.B
	n, err := c.quiet.Read(b[had:cap(b)])
	c.in.B = b[:had+n]
	if n > 0 && c.state.Load() != stateBusy && !c.state.CompareAndSwap(stateIdle, stateBusy) {
		return net.ErrClosed
	}
	switch {
	case n > 0 || err == nil:
		return nil
	case c.phase == phaseBody:
		c.broken = err
		return errForeign // the handler of net/http answers half a body as it always does
	case errors.Is(err, io.EOF) && (had >= minRequest || had > 0 && c.at.IsZero()):
		return errForeign // net/http knows how to answer half a request
	}
	return err
}

func (c *conn) answer() error {
	q, r := &c.request, c.route
	end := c.size + q.length
	answer, closes := c.reply(q, r, func(out []byte) (int, []byte) {
		return r.Answer(c.front.ctx, q, c.checked, c.in.B[c.size:end], out)
	})
	c.checked, c.passed = nil, false
	if answer == nil {
		return errForeign
	}
	if err := c.respond(answer); err != nil {
		return err
	}
	if closes {
		return net.ErrClosed
	}
	c.in.B = c.in.B[:copy(c.in.B, c.in.B[end:])]
	c.size, c.scanned = 0, 0
	return c.rest()
}

func (c *conn) respond(answer []byte) error {
	if c.at.Sub(c.wrote) >= rearm {
		c.wrote = c.at
		c.deadline(c.SetWriteDeadline, c.front.writeTimeout)
	}
	if _, err := c.quiet.Write(answer); err != nil {
		return err
	}
	if c.phase != phaseIdle || c.at.Sub(c.armed) >= rearm {
		c.phase, c.armed = phaseIdle, c.at
		c.deadline(c.SetReadDeadline, c.front.idleTimeout)
	}
	return nil
}

// rest frees memory and marks the connection as idle, unless the next request has begun.
func (c *conn) rest() error {
	c.trim()
	if len(c.request.head) > maxIdleBuffer {
		c.request.reset()
	}
	if len(c.in.B) > 0 {
		return nil
	}
	if cap(c.in.B) > maxIdleBuffer {
		c.in.Free()
		c.in = netio.Get(0)
	}
	c.state.Store(stateIdle)
	if c.front.isClosing() { // Close may have missed that the connection is idle
		return net.ErrClosed
	}
	return nil
}
