//go:build linux

package load

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Opcodes of RFC 6455.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

var (
	errFrame = errors.New("the server has sent a frame with an invalid header, or in parts, or of more than 16 MiB")
	errShake = errors.New("the server has refused the WebSocket handshake")
)

const largestFrame = 16 << 20

// frame returns the first frame of data and what follows it; size is 0 if data has only a part of it.
func frame(data []byte) (op byte, payload []byte, size int, err error) {
	if len(data) < 2 {
		return 0, nil, 0, nil
	}
	op = data[0] & 0x0F
	if data[0]&0xF0 != 0x80 || data[1]&0x80 != 0 || op == 0 || op > opBinary && op < opClose || op > opPong || op >= opClose && data[1] > 125 {
		return 0, nil, 0, errFrame
	}
	head, n := 2, uint64(data[1])
	switch {
	case n == 126 && len(data) >= 4:
		head, n = 4, uint64(binary.BigEndian.Uint16(data[2:]))
	case n == 127 && len(data) >= 10:
		head, n = 10, binary.BigEndian.Uint64(data[2:])
	case n >= 126:
		return 0, nil, 0, nil
	}
	if n > largestFrame {
		return 0, nil, 0, errFrame
	}
	if size = head + int(n); len(data) < size {
		return 0, nil, 0, nil
	}
	return op, data[head:size], size, nil
}

// appendFrame appends a frame of a client. Its mask is 0, so the payload is as it is.
func appendFrame(dst []byte, op byte, payload []byte) []byte {
	dst = append(dst, 0x80|op)
	switch n := len(payload); {
	case n <= 125:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	return append(append(dst, 0, 0, 0, 0), payload...)
}

// key of all handshakes, and what servers answer to it; these are those of RFC 6455.
const (
	key    = "dGhlIHNhbXBsZSBub25jZQ=="
	accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
)

// handshake returns the request that opens a WebSocket.
func handshake(host string, proto bool) []byte {
	request := "GET /connection/websocket HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\n"
	if proto {
		request += "Sec-WebSocket-Protocol: centrifuge-protobuf\r\n"
	}
	return []byte(request + "\r\n")
}

// shaken returns the size of the answer to a handshake at the beginning of data; 0 if data has only a part of it.
func shaken(data []byte) (int, error) {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if end < 0 {
		if len(data) > 8<<10 {
			return 0, errShake
		}
		return 0, nil
	}
	if !bytes.HasPrefix(data, []byte("HTTP/1.1 101 ")) || !bytes.Contains(data[:end], []byte(accept)) {
		return 0, errShake
	}
	return end + 4, nil
}
