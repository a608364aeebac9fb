package gyrotest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// maxBody bounds the body of a refusal, and maxMessage a message of the server, in bytes.
const (
	maxBody    = 64 << 10
	maxMessage = 64 << 20
)

// Dial opens a WebSocket connection to an address, which begins with ws, wss, http or https. The
// test fails if the server refuses; Handshake is for tests that expect that.
func Dial(tb testing.TB, address string, o *Options) *Client {
	tb.Helper()
	c, status, body := Handshake(tb, address, o)
	if c == nil {
		tb.Fatalf("gyrotest: %s answers with status %d: %s", address, status, body)
	}
	return c
}

// Handshake is Dial for a server that may refuse. If it does, the client is nil, and the HTTP
// status and up to 64 KiB of the body tell why.
func Handshake(tb testing.TB, address string, o *Options) (c *Client, status int, body string) {
	tb.Helper()
	options := orZero(o)
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatalf("gyrotest: %v", err)
	}
	if options.Encoding == protocol.Protobuf {
		query := u.Query()
		query.Set("cf_protocol", "protobuf")
		u.RawQuery = query.Encode()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(options.Timeout, defaultTimeout))
	defer cancel()
	conn, err := open(ctx, u, options)
	if err != nil {
		tb.Fatalf("gyrotest: %v", err)
	}
	r, res, err := upgrade(ctx, conn, u, options.Header)
	if err != nil {
		conn.Close()
		tb.Fatalf("gyrotest: handshake with %s: %v", address, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
		if err != nil {
			tb.Fatalf("gyrotest: %s answers with status %d and an incomplete body: %v", address, res.StatusCode, err)
		}
		return nil, res.StatusCode, string(text)
	}
	return over(tb, options, conn, r), res.StatusCode, ""
}

// open opens the network connection to a URL.
func open(ctx context.Context, u *url.URL, o Options) (net.Conn, error) {
	secure := u.Scheme == "https" || u.Scheme == "wss"
	port := u.Port()
	switch {
	case port == "" && secure:
		port = "443"
	case port == "":
		port = "80"
	}
	dial := o.DialContext
	switch {
	case dial != nil:
	case secure:
		// A test's server has a certificate that nobody has signed.
		dial = (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext
	default:
		dial = new(net.Dialer).DialContext
	}
	return dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

// upgrade does the handshake, until ctx ends.
func upgrade(ctx context.Context, conn net.Conn, u *url.URL, header http.Header) (*bufio.Reader, *http.Response, error) {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, nil, err
	}
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header.Clone()}
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		err = conn.SetDeadline(time.Time{})
	}
	return r, res, err
}

// Over returns a client of a WebSocket connection that is open already, for example one over
// HTTP/2.
func Over(tb testing.TB, conn io.ReadWriteCloser, o *Options) *Client {
	tb.Helper()
	return over(tb, orZero(o), conn, conn)
}

func over(tb testing.TB, o Options, conn io.WriteCloser, r io.Reader) *Client {
	s := &socket{conn: conn, op: opText}
	if o.Encoding == protocol.Protobuf {
		s.op = opBinary
	}
	c := newClient(tb, o, s)
	go s.run(r, c)
	return c
}

// Opcodes of RFC 6455.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// socket is the client's end of a WebSocket without extensions.
type socket struct {
	conn io.WriteCloser
	op   byte // of messages
}

func (s *socket) send(msg []byte) { s.write(s.op, msg) }
func (s *socket) drop()           { s.conn.Close() }

// write writes an unfragmented frame by one call, so that frames of several goroutines do not
// mix. If it fails, reading fails as well.
func (s *socket) write(op byte, payload []byte) {
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n <= 125:
		frame = append(frame, 0x80|byte(n))
	case n <= 65535:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	key := [4]byte{0x12, 0x34, 0xFE, 0xDC}
	frame = append(frame, key[:]...)
	for i, b := range payload {
		frame = append(frame, b^key[i%4])
	}
	_, _ = s.conn.Write(frame)
}

// run reads until the connection ends.
func (s *socket) run(r io.Reader, c *Client) {
	defer s.drop()
	var message []byte
	for {
		fin, op, payload, err := read(r)
		if err != nil {
			if broken := (*frameError)(nil); errors.As(err, &broken) {
				c.fail(err)
			}
			c.finish(protocol.Disconnect{})
			return
		}
		switch op {
		case opText, opBinary, opContinuation:
			if message = append(message, payload...); len(message) > maxMessage {
				c.fail(fmt.Errorf("gyrotest: the server sent a message of more than %d bytes", maxMessage))
			}
			if fin {
				c.received(message)
				message = nil
			}
		case opPing:
			s.write(opPong, payload)
		case opClose:
			var d protocol.Disconnect
			if len(payload) >= 2 {
				d.Code, d.Reason = uint32(binary.BigEndian.Uint16(payload)), string(payload[2:])
			}
			s.write(opClose, payload)
			c.finish(d)
			return
		}
	}
}

// frameError says that the server broke the rules of WebSocket.
type frameError struct{ reason string }

func (e *frameError) Error() string { return "gyrotest: the server sent " + e.reason }

// read reads a frame.
func read(r io.Reader) (fin bool, op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return false, 0, nil, err
	}
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return false, 0, nil, &frameError{fmt.Sprintf("a frame with the invalid header % x", head)}
	}
	length := uint64(head[1])
	if length >= 126 {
		extended := make([]byte, 2<<((length-126)*2))
		if _, err = io.ReadFull(r, extended); err != nil {
			return false, 0, nil, err
		}
		length = binary.BigEndian.Uint64(append(make([]byte, 8-len(extended)), extended...))
	}
	if length > maxMessage {
		return false, 0, nil, &frameError{fmt.Sprintf("a frame of %d bytes", length)}
	}
	var b bytes.Buffer
	_, err = io.CopyN(&b, r, int64(length))
	return head[0]&0x80 != 0, head[0] & 0x0F, b.Bytes(), err
}
