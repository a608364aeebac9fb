package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/server/api"
)

const (
	// rearm is how much later than asked for a connection may be found to be idle:
	// setting a deadline for each request would cost more than parsing it.
	rearm = time.Second
	// minRequest is how much net/http wants to see before it takes it for a further
	// request; bytes.
	minRequest = 4
	// maxKept bounds the buffers that an idle connection holds on to; bytes.
	maxKept = 4 << 10
)

// States of a conn.
const (
	stateIdle  int32 = iota // waits for a request
	stateBusy               // has read some of one
	stateEnded              // was closed while idle
)

// conn is a connection that a Listener serves.
type conn struct {
	net.Conn
	listener *Listener
	state    atomic.Int32
	in       *buffer // what was read and not answered yet
	json     []byte
	out      []byte
	head     head
	// phase is what the read deadline, set at armed, is for.
	phase        phase
	armed, wrote time.Time // deadlines were set
	second       int64     // that date is of
	date         []byte
}

type phase int

const (
	phaseHead phase = iota // to complete a head
	phaseIdle              // to begin a request
	phaseBody              // to complete a body
)

var errForeign = errors.New("not a request for the listener")

// serve answers requests until one is foreign or the connection ends.
func (c *conn) serve() {
	defer c.listener.remove(c)
	defer c.guard()
	c.in = getBuffer(0)
	c.armed = time.Now()
	c.deadline(c.SetReadDeadline, c.listener.first)
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
		putBuffer(c.in)
		return
	}
}

// guard keeps a panic to this connection.
func (c *conn) guard() {
	if p := recover(); p != nil {
		c.listener.handler.log.Error("request handler panicked", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		_ = c.Close()
	}
}

// closeIdle closes the connection if it waits for a request.
func (c *conn) closeIdle() {
	if c.state.CompareAndSwap(stateIdle, stateEnded) {
		_ = c.Close()
	}
}

// handOver gives the connection to the server.
func (c *conn) handOver() bool {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return false
	}
	return c.listener.pass(&replay{Conn: c.Conn, early: bytes.Clone(c.in.b)}, nil)
}

// next reads until there is a request. An error other than errForeign ends the
// connection.
func (c *conn) next() error {
	for {
		if len(c.in.b) > 0 {
			switch c.head.parse(c.in.b, c.listener.methods) {
			case verdictForeign:
				return errForeign
			case verdictComplete:
				if len(c.in.b) >= c.head.size+c.head.body {
					return nil
				}
				if c.phase != phaseBody && !c.allowed() {
					return errForeign // nobody waits for its body
				}
				c.await(phaseBody, c.listener.idle)
			case verdictIncomplete:
				c.await(phaseHead, c.listener.first)
			}
		}
		if err := c.read(); err != nil {
			return err
		}
	}
}

// await sets the deadline for the rest of a request, once.
func (c *conn) await(p phase, d time.Duration) {
	if c.phase != p {
		c.phase, c.armed = p, time.Now()
		c.deadline(c.SetReadDeadline, d)
	}
}

// deadline sets a deadline in d, or as much as rearm later; 0 is none.
func (c *conn) deadline(set func(time.Time) error, d time.Duration) {
	if d > 0 {
		_ = set(time.Now().Add(d + rearm)) // fails if the connection does
	}
}

func (c *conn) read() error {
	b := c.in.b
	if len(b) == cap(b) {
		b = slices.Grow(b, len(b))
	}
	n, err := c.Conn.Read(b[len(b):cap(b)])
	c.in.b = b[:len(b)+n]
	if n > 0 && c.state.Load() != stateBusy && !c.state.CompareAndSwap(stateIdle, stateBusy) {
		return net.ErrClosed
	}
	switch {
	case n > 0 || err == nil:
		return nil
	case errors.Is(err, io.EOF) && (len(b) >= minRequest || len(b) > 0 && c.second == 0):
		return errForeign // the server knows what to say to half a request
	}
	return err
}

// allowed reports whether the request has the right key.
func (c *conn) allowed() bool {
	a := &c.listener.handler.auth
	return a.insecure || a.allowFields(string(c.head.key), string(c.head.authorization))
}

// answer executes the request that was read.
func (c *conn) answer() error {
	h := c.listener.handler
	if !c.allowed() {
		return errForeign
	}
	size := c.head.size + c.head.body
	req := c.head.method.NewRequest()
	if api.UnmarshalRequest(c.in.b[c.head.size:size], req) != nil {
		return errForeign
	}
	status, out := h.execute(c.listener.ctx, c.head.method, req, c.json[:0], false)
	c.json = out
	if status != http.StatusOK { // after it was executed, nobody else can answer
		return errors.New("the answer cannot be encoded")
	}
	last := c.listener.isClosing()
	if err := c.respond(last); err != nil {
		return err
	}
	if h.answered != nil {
		h.answered(c.head.method)
	}
	if last {
		return net.ErrClosed
	}
	c.in.b = c.in.b[:copy(c.in.b, c.in.b[size:])]
	return c.rest()
}

// respond sends c.json.
func (c *conn) respond(last bool) error {
	now := time.Now()
	if second := now.Unix(); second != c.second {
		c.second, c.date = second, now.UTC().AppendFormat(c.date[:0], http.TimeFormat)
	}
	out := append(c.out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: "...)
	out = append(out, c.date...)
	if last {
		out = append(out, "\r\nConnection: close"...)
	}
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(c.json)), 10)
	out = append(out, "\r\n\r\n"...)
	c.out = append(out, c.json...)
	if now.Sub(c.wrote) >= rearm {
		c.wrote = now
		c.deadline(c.SetWriteDeadline, c.listener.write)
	}
	if _, err := c.Write(c.out); err != nil {
		return err
	}
	if c.phase != phaseIdle || now.Sub(c.armed) >= rearm {
		c.phase, c.armed = phaseIdle, now
		c.deadline(c.SetReadDeadline, c.listener.idle)
	}
	return nil
}

// rest gets ready to wait for another request.
func (c *conn) rest() error {
	if cap(c.json) > maxKept {
		c.json = nil
	}
	if cap(c.out) > maxKept {
		c.out = nil
	}
	if len(c.in.b) > 0 { // it has come already
		return nil
	}
	if cap(c.in.b) > maxKept {
		putBuffer(c.in)
		c.in = getBuffer(0)
	}
	c.state.Store(stateIdle)
	if c.listener.isClosing() { // else Close sees that the connection is idle
		return net.ErrClosed
	}
	return nil
}
