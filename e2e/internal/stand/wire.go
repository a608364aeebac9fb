package stand

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

// wire is a WebSocket connection for JSON messages of the client protocol. A stand may have
// thousands of them, so that each has one goroutine and small buffers only.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
}

// closed is the error of a connection that the server ended by a close frame.
type closed struct {
	code   int
	reason string
}

func (c *closed) Error() string { return fmt.Sprintf("closed with code %d %q", c.code, c.reason) }

// Opcodes of RFC 6455.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

const maxMessage = 64 << 20

// dialWire connects to path at addr, host:port.
func dialWire(ctx context.Context, addr, path string) (*wire, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if runtime.GOOS == "linux" {
		// The kernel's search for a free port takes long when thousands of an address are in use.
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+rand.N(200)))}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, r: bufio.NewReaderSize(conn, 512)}
	if err := w.handshake(addr, path); err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

func (w *wire) handshake(host, path string) error {
	if err := w.conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
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

// messages reads one WebSocket message as frames does, and decodes the messages of the protocol.
func (w *wire) messages(timeout time.Duration, take func(*reply) error) error {
	return w.frames(timeout, func(line []byte) error {
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%w: %w in %s", errProtocol, err, line)
		}
		return take(&r)
	})
}

// frames reads one WebSocket message, answers the protocol's pings in it, and calls take with
// the other messages of the protocol.
func (w *wire) frames(timeout time.Duration, take func(line []byte) error) error {
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
func (w *wire) read(timeout time.Duration) ([]byte, error) {
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
			return nil, &closed{int(binary.BigEndian.Uint16(payload)), string(payload[2:])}
		case op == opClose:
			return nil, &closed{code: 1005}
		default:
			return nil, fmt.Errorf("%w: frame of opcode %d", errProtocol, op)
		}
		if err != nil {
			return nil, err
		}
	}
}

// frame reads one frame. The server fragments nothing.
func (w *wire) frame() (op byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(w.r, head[:2]); err != nil {
		return 0, nil, err
	}
	if head[0]&0xf0 != 0x80 || head[1]&0x80 != 0 {
		return 0, nil, fmt.Errorf("%w: frame begins with %x", errProtocol, head[:2])
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
func (w *wire) write(op byte, payload []byte) error {
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
	if err := w.conn.SetWriteDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	_, err := w.conn.Write(frame)
	return err
}
