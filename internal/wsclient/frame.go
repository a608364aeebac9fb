package wsclient

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
)

// Opcodes of RFC 6455.
const (
	OpContinuation = 0
	OpText         = 1
	OpBinary       = 2
	OpClose        = 8
	OpPing         = 9
	OpPong         = 10
)

// maxControl is the longest payload of a control frame.
const maxControl = 125

// Header is the header of a frame.
type Header struct {
	Op   byte
	Fin  bool   // no part of the message follows
	Head int    // bytes of the header
	Size uint64 // bytes of the payload
}

// RuleError is a rule of RFC 6455 that the server has broken.
type RuleError struct{ text string }

func (e *RuleError) Error() string { return e.text }

const maxHead = 10

// ParseHeader reads a header, and reports false if data has only a part of it. The error is a *RuleError.
func ParseHeader(data []byte) (h Header, complete bool, err error) {
	if len(data) < 2 {
		return h, false, nil
	}
	h = Header{Op: data[0] & 0x0F, Fin: data[0]&0x80 != 0, Head: 2, Size: uint64(data[1])}
	switch {
	case data[0]&0x70 != 0 || data[1]&0x80 != 0:
		return h, false, &RuleError{"the server has sent a frame with an invalid header: reserved bits, or a mask"}
	case h.Op > OpBinary && h.Op < OpClose || h.Op > OpPong:
		return h, false, &RuleError{"the server has sent a frame of an unknown kind"}
	case h.Op >= OpClose && (!h.Fin || h.Size > maxControl):
		return h, false, &RuleError{"the server has sent a control frame in parts, or one that is too long"}
	case h.Size == 126:
		if h.Head = 4; len(data) >= h.Head {
			h.Size = uint64(binary.BigEndian.Uint16(data[2:]))
		}
	case h.Size == 127:
		if h.Head = maxHead; len(data) >= h.Head {
			h.Size = binary.BigEndian.Uint64(data[2:])
		}
	}
	return h, len(data) >= h.Head, nil
}

// ParseClose reads the payload of a Close frame.
func ParseClose(payload []byte) *CloseError {
	if len(payload) < 2 {
		return &CloseError{Code: StatusNone}
	}
	return &CloseError{Code: uint32(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
}

// AppendFrame appends a whole message, or a control frame. A mask of 0 leaves the payload as it is.
func AppendFrame(dst []byte, op byte, mask uint32, payload []byte) []byte {
	dst = append(slices.Grow(dst, maxHead+4+len(payload)), 0x80|op)
	switch n := len(payload); {
	case n <= maxControl:
		dst = append(dst, 0x80|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0x80|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, 0x80|127), uint64(n))
	}
	dst = binary.LittleEndian.AppendUint32(dst, mask)
	start := len(dst)
	dst = append(dst, payload...)
	masked, twice := dst[start:], uint64(mask)<<32|uint64(mask)
	for ; len(masked) >= 8; masked = masked[8:] {
		binary.LittleEndian.PutUint64(masked, binary.LittleEndian.Uint64(masked)^twice)
	}
	for i := range masked {
		masked[i] ^= byte(twice >> (8 * i))
	}
	return dst
}

const keepFrame = 64 << 10

var frames = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// WriteFrame writes a frame by one call, under the lock mu, so that frames of several goroutines do not mix.
func WriteFrame(to io.Writer, mu *sync.Mutex, op byte, payload []byte) error {
	buf := frames.Get().(*[]byte)
	defer frames.Put(buf)
	frame := AppendFrame((*buf)[:0], op, rand.Uint32(), payload)
	if cap(frame) <= keepFrame {
		*buf = frame
	}
	mu.Lock()
	defer mu.Unlock()
	_, err := to.Write(frame)
	return err
}
