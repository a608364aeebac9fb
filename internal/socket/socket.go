// Package socket is the client's end of a WebSocket connection (RFC 6455), without extensions: that of package client, of
// gyrotest, and of tests that read what a server sends. A connection that waits has a goroutine and a buffer of 512 bytes.
package socket

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

// Opcodes of RFC 6455.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// StatusNone is the code of a Close frame without one.
const StatusNone = 1005

// Status codes of RFC 6455, which are for the reader of a Close frame.
const (
	statusProtocolError = 1002
	statusTooBig        = 1009
)

// maxControl is the longest payload of a control frame.
const maxControl = 125

// maxBody bounds what is read of the answer to a handshake that is refused; bytes.
const maxBody = 64 << 10

// keptMessage is up to which size the buffer of a message is used again; bytes.
const keptMessage = 8 << 10

// CloseError says that the server has closed the connection.
type CloseError struct {
	Code   uint32 // StatusNone if the server has given none
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("the server has closed the connection: %d %s", e.Code, e.Reason)
}

// StatusError says that the server has refused a request.
type StatusError struct {
	Status int
	Body   string // its first 64 KiB
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers with status %d %s", e.Status, http.StatusText(e.Status))
	if body := strings.TrimSpace(e.Body); body != "" {
		text += ": " + strings.ToValidUTF8(body[:min(len(body), 256)], "\uFFFD")
	}
	return text
}

// ErrTooBig says that the server has sent a message beyond the limit.
var ErrTooBig = errors.New("the server has sent a message that is larger than the limit")

// Dialer has what all connections to a server share.
type Dialer struct {
	// URL of the endpoint; its scheme is http or https.
	URL string
	// Header of the request, beside those of the handshake.
	Header http.Header
	// Protocol is the subprotocol to ask for; empty for none.
	Protocol string
	// Binary tells whether messages are sent as binary ones.
	Binary bool
	// Limit of a message, in bytes.
	Limit int
	// Transport makes the request. It has to answer a status of 101 with a body that is an io.ReadWriteCloser, as
	// an *http.Transport for HTTP/1.1 does.
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

// Dial does the handshake. ctx ends it, and has no meaning for the connection.
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	var nonce [16]byte
	rand.Read(nonce[:]) // never fails
	key := base64.StdEncoding.EncodeToString(nonce[:])
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, values := range d.Header {
		req.Header[name] = values
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", key)
	if d.Protocol != "" {
		req.Header.Set("Sec-WebSocket-Protocol", d.Protocol)
	}
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

// Over returns a connection whose handshake has been made. binary and limit are as in a Dialer.
func Over(stream io.ReadWriteCloser, binary bool, limit int) *Conn {
	c := &Conn{stream: stream, op: opText, limit: limit}
	if binary {
		c.op = opBinary
	}
	return c
}

// Refused is the refusal of an answer.
func Refused(res *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // what there is
	return &StatusError{res.StatusCode, string(text)}
}

// check returns the connection behind the answer to a handshake.
func (d *Dialer) check(res *http.Response, key string) (io.ReadWriteCloser, error) {
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, Refused(res)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	stream, ok := res.Body.(io.ReadWriteCloser)
	switch {
	case !ok:
		return nil, errors.New("the HTTP transport gives no connection for status 101: it has to speak HTTP/1.1")
	case !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") || res.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]):
		return nil, errors.New("the answer to the handshake is not that of a WebSocket server")
	case res.Header.Get("Sec-WebSocket-Protocol") != d.Protocol:
		return nil, fmt.Errorf("the server does not agree to the subprotocol %q", d.Protocol)
	case res.Header.Get("Sec-WebSocket-Extensions") != "":
		return nil, errors.New("the server uses an extension that nobody asked for")
	}
	return stream, nil
}

// Write writes a message. If it fails, Read ends.
func (c *Conn) Write(message []byte) error {
	err := c.write(c.op, message)
	if err != nil {
		c.Cut()
	}
	return err
}

var frames = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// write writes a frame by one call, so that those of several goroutines do not mix.
func (c *Conn) write(op byte, payload []byte) error {
	buf := frames.Get().(*[]byte)
	defer frames.Put(buf)
	frame := append((*buf)[:0], 0x80|op)
	switch n := len(payload); {
	case n <= maxControl:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	var mask [4]byte
	binary.LittleEndian.PutUint32(mask[:], mathrand.Uint32())
	frame = append(frame, mask[:]...)
	start := len(frame)
	frame = append(frame, payload...)
	for i := range payload {
		frame[start+i] ^= mask[i&3]
	}
	if cap(frame) <= keptMessage {
		*buf = frame
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.stream.Write(frame)
	return err
}

// Close sends a Close frame and ends the connection. It waits for no answer.
func (c *Conn) Close(code uint16, reason string) {
	payload := binary.BigEndian.AppendUint16(nil, code)
	_ = c.write(opClose, append(payload, reason[:min(len(reason), maxControl-2)]...)) // the connection may be gone
	c.Cut()
}

// Cut ends the connection at once, also if a write is under way.
func (c *Conn) Cut() { _ = c.stream.Close() }

// Read calls handle with each message until the connection ends, and returns why: what Next returns, or the error of
// handle. handle must not keep the message.
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
// *CloseError, ErrTooBig, a *RuleError, or that of the network.
func (c *Conn) Next() ([]byte, error) {
	message := c.message[:0]
	if c.message = nil; cap(message) > keptMessage {
		message = nil
	}
	for inside := false; ; {
		fin, op, size, err := c.header()
		switch {
		case err != nil:
			return nil, c.broken(err)
		case op >= opClose:
			if err := c.control(fin, op, size); err != nil {
				c.Cut()
				return nil, err
			}
			continue
		case inside == (op != opContinuation):
			return nil, c.broken(&RuleError{"the server has sent a fragment where it must not"})
		case size > uint64(c.limit-len(message)):
			return nil, c.broken(ErrTooBig)
		}
		if message, err = c.payload(message, int(size)); err != nil {
			return nil, c.broken(err)
		}
		if inside = !fin; !inside {
			c.message = message
			return message, nil
		}
	}
}

// broken ends the connection, and tells the server of a rule that it has broken.
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

// RuleError is a rule of RFC 6455 that the server has broken.
type RuleError struct{ text string }

func (e *RuleError) Error() string { return e.text }

// control handles a control frame.
func (c *Conn) control(fin bool, op byte, size uint64) error {
	if !fin || size > maxControl {
		return c.broken(&RuleError{"the server has sent a control frame in parts, or one that is too long"})
	}
	payload, err := c.payload(nil, int(size))
	if err != nil {
		return err
	}
	switch op {
	case opPing:
		return c.write(opPong, payload)
	case opPong:
		return nil
	case opClose:
		closed := &CloseError{Code: StatusNone}
		if len(payload) >= 2 {
			closed.Code, closed.Reason = uint32(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
		_ = c.write(opClose, payload) // the server may have gone
		return closed
	}
	return c.broken(&RuleError{"the server has sent a frame of an unknown kind"})
}

// header reads the header of a frame.
func (c *Conn) header() (fin bool, op byte, size uint64, err error) {
	var head [8]byte
	if err = c.full(head[:2]); err != nil {
		return false, 0, 0, err
	}
	fin, op, size = head[0]&0x80 != 0, head[0]&0x0F, uint64(head[1])
	switch {
	case head[0]&0x70 != 0 || head[1]&0x80 != 0 || op > opBinary && op < opClose:
		return false, 0, 0, &RuleError{"the server has sent a frame with an invalid header"}
	case size == 126:
		if err = c.full(head[6:]); err == nil {
			size = uint64(binary.BigEndian.Uint16(head[6:]))
		}
	case size == 127:
		if err = c.full(head[:]); err == nil {
			size = binary.BigEndian.Uint64(head[:])
		}
	}
	return fin, op, size, err
}

// payload appends the next n bytes to b. It takes memory for them as they come.
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

// full fills p. What it has no room for in p goes to the buffer.
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
