// Package wire speaks the JSON messages of the client protocol over WebSocket, for tests with thousands of clients.
package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"
)

// Conn is a WebSocket connection. It has small buffers, and no goroutine. One goroutine reads, another may send.
type Conn struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
}

// Closed is the error of a connection that the server ended by a close frame.
type Closed struct {
	Code   int
	Reason string
}

func (c *Closed) Error() string { return fmt.Sprintf("closed with code %d %q", c.Code, c.Reason) }

// Terminal tells whether an SDK would not connect again.
func (c *Closed) Terminal() bool { return 3500 <= c.Code && c.Code < 4000 || c.Code >= 4500 }

// ErrProtocol is wrapped by errors of what a server must not send.
var ErrProtocol = errors.New("broken protocol")

// Timeout bounds connecting, and sending a message.
const Timeout = 5 * time.Second

// Sleep lasts until d has passed or ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Opcodes of RFC 6455.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const maxMessage = 64 << 20

// Over returns a connection whose handshake has been made.
func Over(conn net.Conn) *Conn { return &Conn{conn: conn, r: bufio.NewReaderSize(conn, 512)} }

// Dial connects to path at addr, host:port.
func Dial(ctx context.Context, addr, path string) (*Conn, error) {
	dialer := net.Dialer{Timeout: Timeout}
	if runtime.GOOS == "linux" {
		// The kernel's search for a free port takes long when thousands of an address are in use.
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+rand.N(200)))}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := Over(conn)
	if err := w.handshake(addr, path); err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

func (w *Conn) handshake(host, path string) error {
	if err := w.conn.SetDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if _, err := io.WriteString(w.conn, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return err
	}
	resp.Body.Close() // there is none
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("handshake: HTTP status %d", resp.StatusCode)
	}
	return w.conn.SetDeadline(time.Time{})
}

// Messages reads one WebSocket message, answers the protocol's pings in it, decodes the other messages of the protocol, and
// calls take with each. It waits for timeout at most.
func Messages[T any](w *Conn, timeout time.Duration, take func(*T) error) error {
	return w.frames(timeout, func(line []byte) error {
		var m T
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%w: %w in %s", ErrProtocol, err, line)
		}
		return take(&m)
	})
}

// Send sends a message of the protocol.
func (w *Conn) Send(text []byte) error { return w.write(opText, text) }

// Close ends the connection without a close frame.
func (w *Conn) Close() { _ = w.conn.Close() }

// frames reads one WebSocket message, answers the protocol's pings in it, and calls take with
// the other messages of the protocol.
func (w *Conn) frames(timeout time.Duration, take func(line []byte) error) error {
	frame, err := w.read(timeout)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(frame)) {
		if strings.TrimSpace(line) == "{}" {
			if err := w.write(opText, []byte("{}")); err != nil {
				return err
			}
			continue
		}
		if err := take([]byte(line)); err != nil {
			return err
		}
	}
	return nil
}

// read returns the next text message, which is valid until the next call.
func (w *Conn) read(timeout time.Duration) ([]byte, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	for {
		op, payload, err := w.frame()
		switch {
		case err != nil:
			return nil, err
		case op == opText:
			return payload, nil
		case op == opPing:
			err = w.write(opPong, payload)
		case op == opClose && len(payload) >= 2:
			return nil, &Closed{int(binary.BigEndian.Uint16(payload)), string(payload[2:])}
		case op == opClose:
			return nil, &Closed{Code: 1005}
		default:
			return nil, fmt.Errorf("%w: frame of opcode %d", ErrProtocol, op)
		}
		if err != nil {
			return nil, err
		}
	}
}

// frame reads one frame. The server fragments nothing.
func (w *Conn) frame() (op byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(w.r, head[:2]); err != nil {
		return 0, nil, err
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		return 0, nil, fmt.Errorf("%w: frame begins with %x", ErrProtocol, head[:2])
	}
	op = head[0] & 0xf
	size := uint64(head[1])
	switch size {
	case 126:
		_, err = io.ReadFull(w.r, head[:2])
		size = uint64(binary.BigEndian.Uint16(head[:2]))
	case 127:
		_, err = io.ReadFull(w.r, head[:8])
		size = binary.BigEndian.Uint64(head[:8])
	}
	if err != nil {
		return 0, nil, err
	}
	if size > maxMessage {
		return 0, nil, errors.New("a frame larger than 64 MiB")
	}
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf = w.buf[:size]
	_, err = io.ReadFull(w.r, w.buf)
	return op, w.buf, err
}

// write sends one frame, masked with zeros.
func (w *Conn) write(op byte, payload []byte) error {
	frame := append(make([]byte, 0, len(payload)+14), 0x80|op)
	switch size := len(payload); {
	case size < 126:
		frame = append(frame, 0x80|byte(size))
	case size < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(size))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(size))
	}
	frame = append(append(frame, 0, 0, 0, 0), payload...)
	if err := w.conn.SetWriteDeadline(time.Now().Add(Timeout)); err != nil {
		return err
	}
	_, err := w.conn.Write(frame)
	return err
}
