// Package frametest has WebSocket frames for tests, valid and invalid ones. It shares no code with the transport.
package frametest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Opcodes of RFC 6455.
const (
	OpText   = 1
	OpBinary = 2
	OpClose  = 8
	OpPing   = 9
	OpPong   = 10
)

// Senders leave tail out of a compressed message, RFC 7692 section 7.2.1. The final block after it tells readers where
// the message ends.
const (
	tail  = "\x00\x00\xff\xff"
	final = "\x01\x00\x00\xff\xff"
)

// Frame is a WebSocket frame. The zero value is a continuation that is not the last.
type Frame struct {
	Fin, RSV1 bool
	Op        byte
	Payload   string
}

func (f Frame) String() string {
	if f.Op == OpClose && len(f.Payload) >= 2 {
		return fmt.Sprintf("close %d %q", binary.BigEndian.Uint16([]byte(f.Payload)), f.Payload[2:])
	}
	return fmt.Sprintf("op %d fin %v rsv1 %v %q", f.Op, f.Fin, f.RSV1, f.Payload)
}

// Text returns a whole text message.
func Text(s string) Frame { return Frame{Fin: true, Op: OpText, Payload: s} }

// Binary returns a whole binary message.
func Binary(s string) Frame { return Frame{Fin: true, Op: OpBinary, Payload: s} }

// Close returns a Close frame with a status.
func Close(code uint16, reason string) Frame {
	return Frame{Fin: true, Op: OpClose, Payload: string(binary.BigEndian.AppendUint16(nil, code)) + reason}
}

// Masked encodes frames as clients send them.
func Masked(frames ...Frame) []byte {
	var b []byte
	for i, f := range frames {
		start := len(b)
		b = f.appendHeader(b)
		b[start+1] |= 0x80
		key := [4]byte{0x12, 0x34, byte(i), 0xFE}
		b = append(b, key[:]...)
		for j := range len(f.Payload) {
			b = append(b, f.Payload[j]^key[j%4])
		}
	}
	return b
}

// Unmasked encodes a frame as servers send it.
func Unmasked(f Frame) []byte { return append(f.appendHeader(nil), f.Payload...) }

func (f Frame) appendHeader(b []byte) []byte {
	first := f.Op
	if f.Fin {
		first |= 0x80
	}
	if f.RSV1 {
		first |= 0x40
	}
	switch n := len(f.Payload); {
	case n <= 125:
		return append(b, first, byte(n))
	case n <= 65535:
		return binary.BigEndian.AppendUint16(append(b, first, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
	}
}

// Read reads a frame of a server.
func Read(r io.Reader) (f Frame, err error) {
	var h [2]byte
	if _, err = io.ReadFull(r, h[:]); err != nil {
		return f, err
	}
	if h[1]&0x80 != 0 || h[0]&0x30 != 0 {
		return f, fmt.Errorf("invalid frame header % x", h)
	}
	f.Fin, f.RSV1, f.Op = h[0]&0x80 != 0, h[0]&0x40 != 0, h[0]&0x0F
	length := uint64(h[1])
	if h[1] >= 126 {
		ext := make([]byte, 2<<((h[1]-126)*2))
		if _, err = io.ReadFull(r, ext); err != nil {
			return f, err
		}
		length = binary.BigEndian.Uint64(append(make([]byte, 8-len(ext)), ext...))
	}
	p := make([]byte, length)
	_, err = io.ReadFull(r, p)
	f.Payload = string(p)
	return f, err
}

// Deflate compresses a message by RFC 7692.
func Deflate(s string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9) // the level is in range
	_, _ = io.WriteString(w, s)    // a bytes.Buffer takes everything
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), tail)
}

// Inflater decompresses a message by RFC 7692.
func Inflater(message string) io.Reader {
	return flate.NewReader(strings.NewReader(message + tail + final))
}

// Violation is a client's input that ends with something no client may send.
type Violation struct {
	Name string
	Data []byte
	// Code and Reason of the server's Close frame.
	Code   uint16
	Reason string
}

// Violations are for a server without compression that takes messages of up to limit bytes.
func Violations(limit int) []Violation {
	return append(headerViolations(limit), payloadViolations()...)
}

func headerViolations(limit int) []Violation {
	const fin, mask, text = 0x80, 0x80, 1
	first := func(b0 byte) []byte { return []byte{b0, mask, 0, 0, 0, 0} }
	big := Masked(Text(strings.Repeat("x", limit+1)))
	return []Violation{
		{"RSV1 without extension", first(fin | 0x40 | text), 1002, "reserved bits set"},
		{"RSV2", first(fin | 0x20 | text), 1002, "reserved bits set"},
		{"RSV3", first(fin | 0x10 | text), 1002, "reserved bits set"},
		{"data opcode 3", first(fin | 3), 1002, "unknown opcode"},
		{"data opcode 7", first(fin | 7), 1002, "unknown opcode"},
		{"control opcode 11", first(fin | 11), 1002, "unknown opcode"},
		{"control opcode 15", first(fin | 15), 1002, "unknown opcode"},
		{"unmasked", Unmasked(Text("a")), 1002, "frame not masked"},
		{"fragmented ping", first(9), 1002, "fragmented control frame"},
		{"fragmented close", first(8), 1002, "fragmented control frame"},
		{"long ping", Masked(Frame{Fin: true, Op: 9, Payload: strings.Repeat("x", 126)}), 1002, "control frame too long"},
		{"continuation first", Masked(Frame{Fin: true, Payload: "x"}), 1002, "continuation of nothing"},
		{"continuation after the end", Masked(Text("a"), Frame{Fin: true, Payload: "x"}), 1002, "continuation of nothing"},
		{"text in text", Masked(Frame{Op: text, Payload: "x"}, Text("y")), 1002, "new message inside a fragmented one"},
		{"binary in empty text", Masked(Frame{Op: text}, Binary("y")), 1002, "new message inside a fragmented one"},
		{"16 bits for 125", []byte{fin | text, mask | 126, 0, 125, 0, 0, 0, 0}, 1002, "length not minimal"},
		{"64 bits for 65535", []byte{fin | text, mask | 127, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, 1002, "length not minimal"},
		{"64th bit", []byte{fin | text, mask | 127, 128, 0, 0, 0, 0, 0, 255, 255, 0, 0, 0, 0}, 1002, "length out of range"},
		{"2^62 bytes", []byte{fin | text, mask | 127, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 1009, "message too big"},
		{"announced too big", big[:len(big)-limit-1], 1009, "message too big"},
		{"one byte too big", big, 1009, "message too big"},
		{"fragments too big", Masked(Frame{Op: text, Payload: strings.Repeat("x", limit)}, Frame{Payload: "x"}), 1009, "message too big"},
	}
}

func payloadViolations() []Violation {
	return []Violation{
		{"text not UTF-8", Masked(Text("a\xff")), 1007, "text is not UTF-8"},
		{"text ends inside a character", Masked(Text("a\xe2\x82")), 1007, "text is not UTF-8"},
		{"fragment not UTF-8", Masked(Frame{Op: 1, Payload: "\xc0"}), 1007, "text is not UTF-8"},
		{"surrogate over fragments", Masked(Frame{Op: 1, Payload: "\xed"}, Frame{Payload: "\xa0"}), 1007, "text is not UTF-8"},
		{"close of 1 byte", Masked(Frame{Fin: true, Op: 8, Payload: "\x03"}), 1002, "close payload too short"},
		{"close 0", Masked(Close(0, "")), 1002, "invalid close code"},
		{"close 999", Masked(Close(999, "")), 1002, "invalid close code"},
		{"close 1004", Masked(Close(1004, "")), 1002, "invalid close code"},
		{"close 1005", Masked(Close(1005, "")), 1002, "invalid close code"},
		{"close 1006", Masked(Close(1006, "")), 1002, "invalid close code"},
		{"close 1015", Masked(Close(1015, "")), 1002, "invalid close code"},
		{"close 2999", Masked(Close(2999, "")), 1002, "invalid close code"},
		{"close 5000", Masked(Close(5000, "")), 1002, "invalid close code"},
		{"close reason not UTF-8", Masked(Close(1000, "\xc3\x28")), 1007, "close reason is not UTF-8"},
	}
}
