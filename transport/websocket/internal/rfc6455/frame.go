// Package rfc6455 has frames, the push-fed parser and the compression of messages of RFC 6455 and RFC 7692, from the
// server's side, without I/O.
package rfc6455

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Opcodes of RFC 6455 section 5.2.
const (
	OpContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xA
)

const (
	bitFin     = 0x80
	bitRSV1    = 0x40 // "compressed", RFC 7692 section 6
	bitsRSV23  = 0x30
	bitControl = 0x08
	maskOpcode = 0x0F
	bitMask    = 0x80
	maskLength = 0x7F
)

const (
	// MaxHeader is the most bytes of a header of a server, which does not mask.
	MaxHeader = 10
	// maxControl is the longest payload of a control frame, section 5.5.
	maxControl = 125
	maxReason  = maxControl - 2
)

// Status codes of RFC 6455 section 7.4.1.
const (
	closeNormal        = 1000
	closeProtocolError = 1002
	closeNoStatus      = 1005 // never on the wire
	closeInvalidData   = 1007
	closeTooBig        = 1009
)

// CloseError tells that a Close frame ended the connection: the client's, or the server's after a violation.
type CloseError struct {
	// Code of RFC 6455 section 7.4; 1005 if the client's frame had none.
	Code     uint16
	Reason   string
	ByClient bool
}

func (e *CloseError) Error() string {
	who := "server"
	if e.ByClient {
		who = "client"
	}
	return fmt.Sprintf("websocket: closed by %s: %d %s", who, e.Code, e.Reason)
}

// Frame makes an unfragmented frame with opcode op in place. buf has MaxHeader bytes, of which the header takes the last
// ones, and then the message. d, unless it is nil, compresses it. The result lies within buf.
func Frame(buf []byte, op byte, d *Deflater) []byte {
	first := bitFin | op
	payload := buf[MaxHeader:]
	if d != nil {
		var ok bool
		if payload, ok = d.compress(payload); ok {
			first |= bitRSV1
		}
	}
	start := MaxHeader - headerSize(len(payload))
	appendHeader(buf[start:start:MaxHeader], first, len(payload))
	return buf[start : MaxHeader+len(payload)]
}

func appendHeader(b []byte, first byte, length int) []byte {
	switch {
	case length <= maxControl:
		return append(b, first, byte(length))
	case length < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, first, 126), uint16(length))
	default:
		return binary.BigEndian.AppendUint64(append(b, first, 127), uint64(length))
	}
}

// FrameSize returns the length of the first frame in b, which this package has made; len(b) if it is not complete.
func FrameSize(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	size := 2 + uint64(b[1])
	switch {
	case b[1] == 126 && len(b) >= 4:
		size = 4 + uint64(binary.BigEndian.Uint16(b[2:]))
	case b[1] == 127 && len(b) >= MaxHeader:
		size = MaxHeader + binary.BigEndian.Uint64(b[2:])
	}
	return int(min(size, uint64(len(b))))
}

func headerSize(length int) int {
	switch {
	case length <= maxControl:
		return 2
	case length < 1<<16:
		return 4
	default:
		return MaxHeader
	}
}

// ControlFrame makes a control frame. payload has at most 125 bytes.
func ControlFrame(op byte, payload []byte) []byte {
	b := make([]byte, 0, 2+len(payload))
	return append(appendHeader(b, bitFin|op, len(payload)), payload...)
}

// CloseFrame makes a Close frame; without a status if code is 0. It cuts the reason to 123 bytes, the most that fits.
func CloseFrame(code uint16, reason string) []byte {
	if code == 0 {
		return ControlFrame(OpClose, nil)
	}
	p := make([]byte, 0, maxControl)
	p = binary.BigEndian.AppendUint16(p, code)
	return ControlFrame(OpClose, append(p, truncateReason(reason)...))
}

// truncateReason returns valid UTF-8 of at most maxReason bytes, cut between characters.
func truncateReason(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// validCloseCode: a client may send the code (sections 7.4.1 and 7.4.2, and the IANA registry for 1012 to 1014).
func validCloseCode(code uint16) bool {
	switch {
	case code >= 3000:
		return code < 5000
	case code >= 1007:
		return code <= 1014
	default:
		return code >= 1000 && code <= 1003
	}
}

// unmask applies the masking of section 5.3 in place. at is b's position in the payload, modulo 4.
func unmask(b []byte, key uint32, at int) {
	if shift := at & 3 * 8; shift != 0 {
		key = key>>shift | key<<(32-shift)
	}
	wide := uint64(key)<<32 | uint64(key)
	for len(b) >= 32 {
		q := b[:32:32]
		binary.LittleEndian.PutUint64(q, binary.LittleEndian.Uint64(q)^wide)
		binary.LittleEndian.PutUint64(q[8:], binary.LittleEndian.Uint64(q[8:])^wide)
		binary.LittleEndian.PutUint64(q[16:], binary.LittleEndian.Uint64(q[16:])^wide)
		binary.LittleEndian.PutUint64(q[24:], binary.LittleEndian.Uint64(q[24:])^wide)
		b = b[32:]
	}
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key >> (i & 3 * 8))
	}
}
