// Package wsclient is the client's end of WebSocket (RFC 6455), without extensions, and of endless streams. A Conn, for
// package client, gyrotest and tests, has a goroutine and a buffer of 512 bytes while it waits. Loads read thousands of
// connections by themselves, and use only frames and the handshake.
package wsclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// StatusNone is the code of a Close frame without one.
const StatusNone = 1005

// Status codes of RFC 6455 for the reader of a Close frame.
const (
	statusProtocolError = 1002
	statusTooBig        = 1009
)

const keepMessage = 8 << 10

// CloseError says that the server has closed the connection.
type CloseError struct {
	Code   uint32 // StatusNone if the server has given none
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("the server has closed the connection: %d %s", e.Code, e.Reason)
}

// ErrTooBig means a message beyond the limit.
var ErrTooBig = errors.New("the server has sent a message that is larger than the limit")

// Dialer has settings for all connections to a server.
type Dialer struct {
	// URL of the endpoint: http or https.
	URL      string
	Header   http.Header
	Protocol string
	Binary   bool
	// Limit of a message, in bytes.
	Limit int
	// Transport has to answer a status of 101 with a body that is an io.ReadWriteCloser, as an *http.Transport for
	// HTTP/1.1 does.
	Transport http.RoundTripper
}

// Conn is a connection. Read and Next are for one goroutine; any may call Write, Close and Cut.
type Conn struct {
	stream  io.ReadWriteCloser
	op      byte
	limit   int
	message []byte // that Next has returned

	buf      [512]byte
	from, to int // bytes of buf that have not been used

	mu sync.Mutex // orders writes
}

// Dial does the handshake, which ctx may end. The connection does not depend on ctx.
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, values := range d.Header {
		req.Header[name] = values
	}
	key := NewKey()
	asks(req.Header, key, d.Protocol)
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	res, err := d.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	stream, err := d.check(res, key)
	if err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return Over(stream, d.Binary, d.Limit), nil
}

func (d *Dialer) check(res *http.Response, key string) (io.ReadWriteCloser, error) {
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, Refused(res)
	}
	stream, ok := res.Body.(io.ReadWriteCloser)
	if !ok {
		return nil, errors.New("the HTTP transport gives no connection for status 101: it has to speak HTTP/1.1")
	}
	field := func(name string) []byte { return []byte(res.Header.Get(name)) }
	a := answer{field("Upgrade"), field("Sec-WebSocket-Accept"), field("Sec-WebSocket-Protocol"), field("Sec-WebSocket-Extensions")}
	return stream, a.check(key, d.Protocol)
}

// Over returns a connection whose handshake has been made.
func Over(stream io.ReadWriteCloser, binary bool, limit int) *Conn {
	c := &Conn{stream: stream, op: OpText, limit: limit}
	if binary {
		c.op = OpBinary
	}
	return c
}

// Write writes a message. If it fails, Read ends.
func (c *Conn) Write(message []byte) error {
	err := c.write(c.op, message)
	if err != nil {
		c.Cut()
	}
	return err
}

func (c *Conn) write(op byte, payload []byte) error { return WriteFrame(c.stream, &c.mu, op, payload) }

// Close sends a Close frame and ends the connection, without waiting for an answer.
func (c *Conn) Close(code uint16, reason string) {
	payload := binary.BigEndian.AppendUint16(nil, code)
	_ = c.write(OpClose, append(payload, reason[:min(len(reason), maxControl-2)]...)) // the connection may be gone
	c.Cut()
}

// Cut ends the connection at once, also if a write is under way.
func (c *Conn) Cut() { _ = c.stream.Close() }

// Read calls handle with each message until the connection ends, and returns the error of Next or of handle. handle must
// not keep the message.
func (c *Conn) Read(handle func(message []byte) error) error {
	defer c.Cut()
	for {
		message, err := c.Next()
		if err == nil {
			err = handle(message)
		}
		if err != nil {
			return err
		}
	}
}

// Next returns the next message, which is valid until the next call. The connection has ended if there is an error: a
// *CloseError, ErrTooBig, a *RuleError, or an error of the network.
func (c *Conn) Next() ([]byte, error) {
	message := c.message[:0]
	if c.message = nil; cap(message) > keepMessage {
		message = nil
	}
	for inside := false; ; {
		h, err := c.header()
		switch {
		case err != nil:
			return nil, c.broken(err)
		case h.Op >= OpClose:
			if err := c.control(h); err != nil {
				c.Cut()
				return nil, err
			}
			continue
		case inside == (h.Op != OpContinuation):
			return nil, c.broken(&RuleError{"the server has sent a fragment where it must not"})
		case h.Size > uint64(c.limit-len(message)):
			return nil, c.broken(ErrTooBig)
		}
		if message, err = c.payload(message, int(h.Size)); err != nil {
			return nil, c.broken(err)
		}
		if inside = !h.Fin; !inside {
			c.message = message
			return message, nil
		}
	}
}

func (c *Conn) broken(err error) error {
	switch {
	case errors.Is(err, ErrTooBig):
		c.Close(statusTooBig, "message too big")
	case errors.As(err, new(*RuleError)):
		c.Close(statusProtocolError, err.Error())
	default:
		c.Cut()
	}
	return err
}

func (c *Conn) control(h Header) error {
	payload, err := c.payload(nil, int(h.Size))
	switch {
	case err != nil:
		return err
	case h.Op == OpPing:
		return c.write(OpPong, payload)
	case h.Op == OpClose:
		_ = c.write(OpClose, payload) // the server may have gone
		return ParseClose(payload)
	}
	return nil
}

func (c *Conn) header() (Header, error) {
	for {
		h, complete, err := ParseHeader(c.buf[c.from:c.to])
		if complete || err != nil {
			c.from += h.Head
			return h, err
		}
		c.from, c.to = 0, copy(c.buf[:], c.buf[c.from:c.to])
		n, err := c.stream.Read(c.buf[c.to:])
		if c.to += n; n == 0 && err != nil {
			return h, err
		}
	}
}

// payload appends the next n bytes to b, and takes memory for them as they come.
func (c *Conn) payload(b []byte, n int) ([]byte, error) {
	const step = 64 << 10
	for n > 0 {
		part := min(n, step)
		start := len(b)
		b = append(b, make([]byte, part)...)
		if err := c.full(b[start:]); err != nil {
			return nil, err
		}
		n -= part
	}
	return b, nil
}

// full fills p, and the buffer with what does not fit into p.
func (c *Conn) full(p []byte) error {
	for len(p) > 0 {
		if c.from == c.to {
			if len(p) >= len(c.buf) {
				n, err := c.stream.Read(p)
				if p = p[n:]; err != nil && len(p) > 0 {
					return err
				}
				continue
			}
			n, err := c.stream.Read(c.buf[:])
			if c.from, c.to = 0, n; n == 0 && err != nil {
				return err
			}
		}
		n := copy(p, c.buf[c.from:c.to])
		c.from += n
		p = p[n:]
	}
	return nil
}
