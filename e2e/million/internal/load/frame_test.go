//go:build linux

package load

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/socket"
)

// stream is the connection of a server that has sent some bytes and closed.
type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }

// FuzzFrame: messages are those that package socket reads from the same bytes, however they are split. What is fragmented is refused.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x81\x02{}\x82\x01\x00"), uint8(1))
	f.Add([]byte("\x89\x00\x88\x02\x0b\xb8\x81\x7e\x00\x03abc"), uint8(5))
	f.Add([]byte("\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x01a\x8a\x01x"), uint8(3))
	f.Add([]byte("\x01\x01a\x80\x01b"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var got, want [][]byte
		var failed error
		size := max(1, int(step))
		for rest, end := data, min(size, len(data)); ; end = min(end+size, len(rest)) {
			op, payload, n, err := frame(rest[:end])
			if err != nil || n > 0 && op == opClose {
				failed = err
				break
			}
			if n > 0 {
				if op == opText || op == opBinary {
					got = append(got, payload)
				}
				rest, end = rest[n:], end-n
				continue
			}
			if end == len(rest) {
				break
			}
		}
		c := socket.Over(stream{bytes.NewReader(data)}, false, largestFrame)
		for {
			message, err := c.Next()
			if err != nil {
				break
			}
			want = append(want, bytes.Clone(message))
		}
		if failed != nil {
			want = want[:min(len(want), len(got))] // the other one takes messages in parts
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d messages, not %d", data, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%q: message %d is %q, not %q", data, i, got[i], want[i])
			}
		}
	})
}

// TestAppendFrame: a server reads the payload by the mask, which is 0.
func TestAppendFrame(t *testing.T) {
	for _, size := range []int{0, 125, 126, 65535, 65536} {
		data := appendFrame([]byte("before"), opBinary, bytes.Repeat([]byte("x"), size))[len("before"):]
		n, head := uint64(data[1]&0x7F), 2
		switch n {
		case 126:
			n, head = uint64(binary.BigEndian.Uint16(data[2:])), 4
		case 127:
			n, head = binary.BigEndian.Uint64(data[2:]), 10
		}
		if data[0] != 0x80|opBinary || data[1]&0x80 == 0 || n != uint64(size) || !bytes.Equal(data[head:head+4], make([]byte, 4)) || len(data) != head+4+size {
			t.Errorf("%d bytes: %.20q", size, data)
		}
	}
}

// TestShaken: only the answer of a WebSocket server opens a connection.
func TestShaken(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: " + accept + "\r\n\r\n"
	for i := range len(answer) {
		if n, err := shaken([]byte(answer[:i])); n != 0 || err != nil {
			t.Errorf("%d bytes: %d %v", i, n, err)
		}
	}
	if n, err := shaken([]byte(answer + "\x81\x00")); n != len(answer) || err != nil {
		t.Error(n, err)
	}
	for _, bad := range []string{"HTTP/1.1 403 Forbidden\r\n\r\n", strings.Replace(answer, accept, "x", 1), strings.Repeat("x", 9000)} {
		if _, err := shaken([]byte(bad)); err == nil {
			t.Errorf("%.50q is taken", bad)
		}
	}
}
