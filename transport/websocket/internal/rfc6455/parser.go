package rfc6455

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// EventKind is the kind of an Event.
type EventKind uint8

const (
	EventNone EventKind = iota // the input is used up
	EventMessage
	EventPing
	EventPong
	EventClose
)

// Event is a message or a control frame. Payload may be used and changed until the next call of the parser; that of a
// control frame for as long as the data given to Next.
type Event struct {
	Kind       EventKind
	Text       bool   // message: was sent as text
	Compressed bool   // message: is still compressed, so text is not checked to be UTF-8
	Code       uint16 // close: the status, 0 if there was none
	Payload    []byte // the message; the payload for the pong; the reason of a close
}

// CloseError is the error for a Close frame of the client.
func (e Event) CloseError() *CloseError {
	err := &CloseError{Code: e.Code, Reason: string(e.Payload), ByClient: true}
	if err.Code == 0 {
		err.Code = closeNoStatus
	}
	return err
}

// The violations of clients. The texts are the reasons in the Close frame.
var (
	errReservedBits = violation(closeProtocolError, "reserved bits set")
	errOpcode       = violation(closeProtocolError, "unknown opcode")
	errUnmasked     = violation(closeProtocolError, "frame not masked")
	errControlFrag  = violation(closeProtocolError, "fragmented control frame")
	errControlSize  = violation(closeProtocolError, "control frame too long")
	errContinuation = violation(closeProtocolError, "continuation of nothing")
	errInterleaved  = violation(closeProtocolError, "new message inside a fragmented one")
	errLength       = violation(closeProtocolError, "length not minimal")
	errLengthRange  = violation(closeProtocolError, "length out of range")
	errClosePayload = violation(closeProtocolError, "close payload too short")
	errCloseCode    = violation(closeProtocolError, "invalid close code")
	errCloseReason  = violation(closeInvalidData, "close reason is not UTF-8")
	errTextEncoding = violation(closeInvalidData, "text is not UTF-8")
	errDeflate      = violation(closeInvalidData, "invalid compressed data")

	// ErrTooBig and ErrTooBigInflated are above the limits of Parser and of Event.Inflate.
	ErrTooBig         = violation(closeTooBig, "message too big")
	ErrTooBigInflated = violation(closeTooBig, "message too big after decompression")
)

func violation(code uint16, reason string) *CloseError {
	return &CloseError{Code: code, Reason: reason}
}

// Parser turns the bytes of a client into events, however they are split. Between messages it holds no memory. The
// exported fields are set before its first use.
type Parser struct {
	Limit    int  // of a message's bytes on the wire
	Compress bool // permessage-deflate was negotiated

	header    [14]byte
	headerLen uint8

	inFrame bool
	fin     bool
	op      byte
	key     uint32
	masked  uint8 // position in the mask
	remain  int   // payload bytes to come
	control []byte

	// Control frames may come between the fragments of a message.
	inMessage  bool
	text       bool
	compressed bool
	message    *netio.Buffer
	valid      int // bytes of message known to be UTF-8

	done *netio.Buffer // holds the last event's payload
}

// Next returns the first event of data, which it unmasks in place, and the bytes after it. After an error or a close
// event the parser must not be used.
func (p *Parser) Next(data []byte) (Event, []byte, *CloseError) {
	p.done.Free()
	p.done = nil
	for {
		if !p.inFrame {
			var err *CloseError
			if data, err = p.readHeader(data); err != nil {
				return Event{}, nil, err
			}
			if !p.inFrame {
				return Event{}, nil, nil
			}
		}
		n := min(p.remain, len(data))
		chunk := data[:n]
		data = data[n:]
		unmask(chunk, p.key, int(p.masked))
		p.masked = uint8(int(p.masked)+n) & 3
		p.remain -= n
		p.inFrame = p.remain > 0

		var e Event
		var err *CloseError
		if p.op&bitControl != 0 {
			e, err = p.controlChunk(chunk)
		} else {
			e, err = p.messageChunk(chunk)
		}
		if err != nil || e.Kind != EventNone {
			return e, data, err
		}
		if len(data) == 0 {
			return Event{}, nil, nil
		}
	}
}

// AtRest reports whether the parser is between two messages and holds no memory.
func (p *Parser) AtRest() bool {
	return p.headerLen == 0 && !p.inFrame && !p.inMessage && p.done == nil
}

// Release frees the memory of the parser, which must not be used again.
func (p *Parser) Release() {
	p.done.Free()
	p.message.Free()
	p.done, p.message = nil, nil
}

// readHeader takes header bytes, and sets p.inFrame after the last one. It finds violations as soon as their byte is
// there.
func (p *Parser) readHeader(data []byte) ([]byte, *CloseError) {
	for {
		need := p.headerNeed()
		n := copy(p.header[p.headerLen:need], data)
		p.headerLen += uint8(n)
		data = data[n:]
		if int(p.headerLen) < need {
			return data, nil
		}
		if need > 2 {
			return data, p.startFrame(need)
		}
		if err := p.checkStart(p.header[0], p.header[1]); err != nil {
			return nil, err
		}
	}
}

func (p *Parser) headerNeed() int {
	if p.headerLen < 2 {
		return 2
	}
	switch p.header[1] & maskLength {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

// checkStart applies the rules of sections 5.1, 5.2, 5.4 and 5.5 on the first two bytes of a frame.
func (p *Parser) checkStart(b0, b1 byte) *CloseError {
	op := b0 & maskOpcode
	switch op {
	case OpContinuation, OpText, OpBinary, OpClose, OpPing, OpPong:
	default:
		return errOpcode
	}
	startsMessage := op == OpText || op == OpBinary
	switch {
	case b0&bitsRSV23 != 0:
		return errReservedBits
	case b0&bitRSV1 != 0 && (!p.Compress || !startsMessage):
		return errReservedBits
	case b1&bitMask == 0:
		return errUnmasked
	case op&bitControl != 0 && b0&bitFin == 0:
		return errControlFrag
	case op&bitControl != 0 && b1&maskLength > maxControl:
		return errControlSize
	case op == OpContinuation && !p.inMessage:
		return errContinuation
	case startsMessage && p.inMessage:
		return errInterleaved
	}
	return nil
}

// startFrame checks the size of a message before anything is allocated for it. The header has n bytes.
func (p *Parser) startFrame(n int) *CloseError {
	h := p.header[:n]
	length := uint64(h[1] & maskLength)
	switch length {
	case 126:
		if length = uint64(binary.BigEndian.Uint16(h[2:])); length <= maxControl {
			return errLength
		}
	case 127:
		if length = binary.BigEndian.Uint64(h[2:]); length < 1<<16 {
			return errLength
		}
		if length > math.MaxInt64 {
			return errLengthRange
		}
	}
	op := h[0] & maskOpcode
	if op&bitControl == 0 {
		had := 0
		if p.message != nil {
			had = len(p.message.B)
		}
		if length > uint64(p.Limit-had) {
			return ErrTooBig
		}
		if op != OpContinuation {
			p.inMessage, p.text, p.compressed = true, op == OpText, h[0]&bitRSV1 != 0
		}
	}
	p.op, p.fin = op, h[0]&bitFin != 0
	p.key, p.masked = binary.LittleEndian.Uint32(h[n-4:]), 0
	p.remain, p.inFrame, p.headerLen = int(length), true, 0
	return nil
}

// messageChunk takes unmasked payload of a data frame; not the last of it if p.inFrame is set.
func (p *Parser) messageChunk(chunk []byte) (Event, *CloseError) {
	last := p.fin && !p.inFrame
	if last && p.message == nil { // the caller's data holds the whole message: do not copy it
		if p.text && !p.compressed && !utf8.Valid(chunk) {
			return Event{}, errTextEncoding
		}
		p.inMessage = false
		return Event{Kind: EventMessage, Text: p.text, Compressed: p.compressed, Payload: chunk}, nil
	}
	if len(chunk) > 0 {
		p.store(chunk)
	}
	if p.message != nil && p.text && !p.compressed && !p.checkText(last) {
		return Event{}, errTextEncoding
	}
	if !last {
		return Event{}, nil
	}
	p.done, p.message = p.message, nil
	p.inMessage, p.valid = false, 0
	return Event{Kind: EventMessage, Text: p.text, Compressed: p.compressed, Payload: p.done.B}, nil
}

// store appends chunk to the message. Memory grows with the bytes that have arrived, not with the announced length.
func (p *Parser) store(chunk []byte) {
	have := 0
	if p.message != nil {
		have = len(p.message.B)
	}
	room := len(chunk) + min(p.remain, have+len(chunk))
	if p.message == nil || cap(p.message.B)-have < len(chunk) {
		p.message = p.message.Grow(room)
	}
	p.message.B = append(p.message.B, chunk...)
}

func (p *Parser) checkText(last bool) bool {
	b := p.message.B[p.valid:]
	if !last {
		b = b[:len(b)-incompleteSuffix(b)]
	}
	p.valid += len(b)
	return utf8.Valid(b)
}

func incompleteSuffix(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (p *Parser) controlChunk(chunk []byte) (Event, *CloseError) {
	if p.control != nil || p.inFrame {
		p.control = append(p.control, chunk...)
		if p.inFrame {
			return Event{}, nil
		}
		chunk, p.control = p.control, nil
	}
	switch p.op {
	case OpPing:
		return Event{Kind: EventPing, Payload: chunk}, nil
	case OpPong:
		return Event{Kind: EventPong, Payload: chunk}, nil
	}
	return closeEvent(chunk)
}

func closeEvent(p []byte) (Event, *CloseError) {
	if len(p) == 0 {
		return Event{Kind: EventClose}, nil
	}
	if len(p) == 1 {
		return Event{}, errClosePayload
	}
	code := binary.BigEndian.Uint16(p)
	if !validCloseCode(code) {
		return Event{}, errCloseCode
	}
	if !utf8.Valid(p[2:]) {
		return Event{}, errCloseReason
	}
	return Event{Kind: EventClose, Code: code, Payload: p[2:]}, nil
}
