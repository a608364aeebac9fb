package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/gyrohq/gyro/quiet"
)

const (
	// maxIdle is the largest number of idle connections.
	maxIdle = 255
	// idleFor is how long an idle connection is kept. Backends commonly close theirs after 60 s or more; some after 5 s,
	// which is noticed before the next call.
	idleFor = 55 * time.Second
)

// pool keeps the connections to a backend. A call takes the connection that was used last, so that surplus ones become
// old and are closed.
type pool struct {
	address string
	tls     *tls.Config // nil for plaintext
	connect func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	idle   []*backendConn // the one that was used last is the last
	closed bool
	timer  *time.Timer // closes idle connections; nil while there are none
}

// backendConn serves one call at a time.
type backendConn struct {
	net.Conn
	asker    *quiet.Asker // of Conn, for calls but the first; nil: there is none
	pending  func() bool  // a read from the socket would return at once
	r        *bufio.Reader
	question []byte // is written before more is read
	sent     bool   // something was written since the call began
	reused   bool
	since    time.Time // when it became idle
}

var (
	errUnsent = errors.New("the connection was closed before the request was written")
	// errStale: the backend has closed the idle connection, or sent unrequested bytes. Nothing was written.
	errStale = errors.New("the connection was closed while it was idle")
)

var (
	errClosed  = errors.New("the backend closed the connection before the end of its answer")
	errHead    = unusable(fmt.Sprintf("the headers of the answer have more than %d bytes", maxHead))
	errInterim = unusable(fmt.Sprintf("more than %d interim answers came before the answer", maxInterim))
	errNotHTTP = unusable("the backend's answer is not HTTP/1.1")
)

func newPool(host, port string, secure *tls.Config) *pool {
	return &pool{address: net.JoinHostPort(host, port), tls: secure, connect: new(net.Dialer).DialContext}
}

// get returns an idle connection that is not closed, or a new one. Connections with an asker check themselves.
func (p *pool) get(ctx context.Context, deadline time.Time) (*backendConn, error) {
	for {
		c := p.pop()
		if c == nil {
			return p.dial(ctx, deadline)
		}
		if c.asker != nil || !c.pending() { // else it is closed, or has unrequested bytes
			c.sent, c.reused = false, true
			return c, nil
		}
		p.drop(c)
	}
}

func (p *pool) pop() *backendConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

func (p *pool) dial(ctx context.Context, deadline time.Time) (*backendConn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := p.connect(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	c := &backendConn{Conn: quiet.Conn(raw), pending: quiet.Pending(raw)}
	if p.tls != nil {
		secure := tls.Client(c.Conn, p.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		c.Conn = secure
	} else {
		c.asker = quiet.NewAsker(c.Conn)
	}
	c.r = bufio.NewReader(answers{c})
	return c, nil
}

// put takes a connection back after a successful call.
func (p *pool) put(c *backendConn) {
	if c.r.Buffered() > 0 {
		p.drop(c)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) == maxIdle {
		c.Close()
		return
	}
	c.since = time.Now()
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(idleFor, p.age)
	}
}

func (p *pool) drop(c *backendConn) { c.Close() }

func (p *pool) age() {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := 0
	for old < len(p.idle) && time.Since(p.idle[old].since) >= idleFor {
		p.idle[old].Close()
		old++
	}
	p.idle = append(p.idle[:0], p.idle[old:]...)
	clear(p.idle[len(p.idle) : len(p.idle)+old])
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(idleFor-time.Since(p.idle[0].since), p.age)
	}
}

// close closes the idle connections now, and the others after their calls.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (c *backendConn) exchange(x *exchange) error {
	c.question = x.text
	switch _, err := c.r.Peek(1); {
	case err == nil:
	case errors.Is(err, quiet.ErrPending):
		return errStale
	case c.reused && !c.sent:
		return errUnsent
	default:
		return withoutContents(err)
	}
	x.res.ResetBody()
	if err := c.readHead(&x.res.Header); err != nil {
		return err
	}
	if bodyless(x.res.StatusCode()) {
		return nil
	}
	chunked := x.res.Header.ContentLength() == -1
	err := x.res.ReadBody(c.r, maxAnswer)
	if err == nil && chunked {
		err = x.res.Header.ReadTrailer(c.r)
	}
	return withoutContents(err)
}

// readHead reads the head of the answer, after interim ones.
func (c *backendConn) readHead(h *fasthttp.ResponseHeader) error {
	for range maxInterim {
		err := h.Read(c.r)
		if err != nil && isLarge(err) && c.r.Size() < maxHead {
			c.grow()
			err = h.Read(c.r)
		}
		if err != nil || h.StatusCode() >= fasthttp.StatusOK {
			return withoutContents(err)
		}
	}
	return errInterim
}

// grow makes a buffer of maxHead bytes. Most heads fit into the first one.
func (c *backendConn) grow() {
	read, _ := c.r.Peek(c.r.Buffered()) // cannot fail
	c.r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(read)), answers{c}), maxHead)
}

// isLarge tells whether a head or a trailer did not fit into the buffer.
func isLarge(err error) bool {
	large := new(fasthttp.ErrSmallBuffer)
	return errors.As(err, &large)
}

// withoutContents removes the parts of the answer that fasthttp quotes: they may be secrets, and errors are logged.
func withoutContents(err error) error {
	if err == nil {
		return nil
	}
	var network interface { // of the system, of crypto/tls or a timeout
		error
		Timeout() bool
	}
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return unusable(err.Error())
	case errors.As(err, &network):
		return network
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errClosed
	case isLarge(err):
		return errHead
	}
	return errNotHTTP
}

// answers reads from a connection, after it has written the question.
type answers struct{ c *backendConn }

func (a answers) Read(p []byte) (n int, err error) {
	c, question := a.c, a.c.question
	if c.question = nil; question == nil {
		return c.Conn.Read(p)
	}
	var written int
	if c.asker != nil && c.reused {
		written, n, err = c.asker.Ask(question, p)
		c.sent = written > 0
		return n, err
	}
	written, err = c.Conn.Write(question)
	if c.sent = written > 0; err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}
