package websocket

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Opcodes of RFC 6455 section 5.2.
const (
	opContinuation = 0x0
	opText         = 0x1
	opBinary       = 0x2
	opClose        = 0x8
	opPing         = 0x9
	opPong         = 0xA
)

// Bits of a frame's first two bytes.
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
	// maxHeader is the longest header that a server writes: servers do not mask.
	maxHeader = 10
	// maxControl is the longest payload of a control frame, section 5.5.
	maxControl = 125
	// maxReason is what a Close frame has left for its reason.
	maxReason = maxControl - 2
)

// Status codes of RFC 6455 section 7.4.1.
const (
	closeNormal        = 1000
	closeProtocolError = 1002
	closeNoStatus      = 1005 // never on the wire
	closeInvalidData   = 1007
	closeTooBig        = 1009
)

// CloseError is what Peer.Closed gets when the connection ended by a Close frame
// that the client sent, or by one that the transport sent because the client
// broke the rules of WebSocket. (After Conn.Close it gets that disconnect.)
type CloseError struct {
	// Code of RFC 6455 section 7.4; 1005 if the client's frame had none.
	Code uint16
	// Reason as in the frame.
	Reason string
	// ByClient tells whose frame it was.
	ByClient bool
}

func (e *CloseError) Error() string {
	who := "server"
	if e.ByClient {
		who = "client"
	}
	return fmt.Sprintf("websocket: closed by %s: %d %s", who, e.Code, e.Reason)
}

// appendHeader appends the header of an unfragmented, unmasked frame.
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

// headerSize is the length of what appendHeader appends.
func headerSize(length int) int {
	switch {
	case length <= maxControl:
		return 2
	case length < 1<<16:
		return 4
	default:
		return maxHeader
	}
}

// controlFrame makes a control frame. payload has at most maxControl bytes.
func controlFrame(op byte, payload []byte) []byte {
	b := make([]byte, 0, 2+len(payload))
	return append(appendHeader(b, bitFin|op, len(payload)), payload...)
}

// closeFrame makes a Close frame. Code 0 means a frame without status.
func closeFrame(code uint16, reason string) []byte {
	if code == 0 {
		return controlFrame(opClose, nil)
	}
	p := make([]byte, 0, maxControl)
	p = binary.BigEndian.AppendUint16(p, code)
	return controlFrame(opClose, append(p, truncateReason(reason)...))
}

// truncateReason makes a text fit for a Close frame: UTF-8 of at most maxReason
// bytes, cut between characters.
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

// validCloseCode reports whether a client may send the code (sections 7.4.1 and
// 7.4.2, and the IANA registry for 1012 to 1014).
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

// unmask applies the masking of section 5.3 to b in place. at is b's position in
// the frame's payload, modulo 4.
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
