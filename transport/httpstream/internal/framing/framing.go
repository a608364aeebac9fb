// Package framing puts messages into the body of an HTTP stream: as lines, as events of SSE, or after their lengths, and
// all of them also as chunks of HTTP/1.1.
package framing

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// Format of messages in a body.
type Format uint8

const (
	// Lines are JSON messages, each with a line break after it.
	Lines Format = iota
	// Events are JSON messages, each the data of an event of SSE.
	Events
	// Delimited are Protobuf messages, each after its length.
	Delimited
	formats
)

// Framer implements transport.Framer.
type Framer struct {
	format  Format
	chunked bool
}

var framers = func() (list [formats][2]*Framer) {
	for f := range formats {
		list[f] = [2]*Framer{{f, false}, {f, true}}
	}
	return list
}()

// Of returns the framer of a format, the same one each time. If chunked is set, its frames are chunks of HTTP/1.1 (RFC
// 9112 section 7.1).
func Of(f Format, chunked bool) *Framer {
	if chunked {
		return framers[f][1]
	}
	return framers[f][0]
}

const (
	event     = "data: " // before the message
	eventEnd  = "\n\n"   // after it
	crlf      = "\r\n"
	maxDigits = 8
)

// Encoding implements transport.Framer.
func (f *Framer) Encoding() protocol.Encoding {
	if f.format == Delimited {
		return protocol.Protobuf
	}
	return protocol.JSON
}

// Headroom implements transport.Framer.
func (f *Framer) Headroom() int {
	n := 0
	if f.format == Events {
		n = len(event)
	}
	if f.chunked {
		n += maxDigits + len(crlf)
	}
	return n
}

// Costly implements transport.Framer.
func (*Framer) Costly() bool { return false }

// Frame implements transport.Framer. Line breaks stand only between messages and before bookmarks: the codec writes none
// into payloads.
func (f *Framer) Frame(buf []byte) []byte {
	from := f.Headroom() // where the frame begins
	if from == len(buf) {
		return buf[from:] // an empty chunk would end the body
	}
	switch f.format {
	case Lines:
		buf = append(buf, '\n')
	case Events:
		if buf = split(buf, from); buf[len(buf)-1] != '\n' { // else the event goes on in the next frame
			buf = append(buf, eventEnd...)
		}
		if !isBookmark(buf[from:]) {
			from -= copy(buf[from-len(event):from], event)
		}
	}
	if !f.chunked {
		return buf[from:]
	}
	size := len(buf) - from
	from -= copy(buf[from-len(crlf):from], crlf)
	for range max((bits.Len(uint(size))+3)/4, 1) {
		from--
		buf[from] = "0123456789abcdef"[size&15]
		size >>= 4
	}
	return append(buf, crlf...)[from:]
}

// isBookmark: no message begins so.
func isBookmark(line []byte) bool { return bytes.HasPrefix(line, []byte(bookmark.Prefix)) }

// split makes an event of each message in buf[from:] and the bookmark after it, without the beginning of the first event
// and the end of the last one. It leaves an empty last line.
func split(buf []byte, from int) []byte {
	const more = len(eventEnd) + len(event) - 1 // bytes that replace the line break before a message, less one
	end, grow := len(buf), 0
	if buf[end-1] == '\n' {
		end--
	}
	for at := from; ; {
		i := bytes.IndexByte(buf[at:end], '\n')
		if i < 0 {
			break
		}
		if at += i + 1; !isBookmark(buf[at:end]) {
			grow += more
		}
	}
	if grow == 0 {
		return buf
	}
	buf = slices.Grow(buf, grow)[:len(buf)+grow]
	copy(buf[end+grow:], buf[end:len(buf)-grow])
	for to := end + grow; to > end; {
		line := end - bytes.LastIndexByte(buf[:end], '\n') - 1
		to -= line
		copy(buf[to:to+line], buf[end-line:end])
		end -= line + 1 // and the line break
		if isBookmark(buf[to : to+line]) {
			to -= copy(buf[to-1:to], "\n")
			continue
		}
		to -= copy(buf[to-len(event):to], event)
		to -= copy(buf[to-len(eventEnd):to], eventEnd)
	}
	return buf
}

// FrameSize returns the length of the first frame in b, or of the first message where frames cannot be told apart;
// len(b) if it is not complete.
func (f *Framer) FrameSize(b []byte) int {
	size := 0
	switch {
	case f.chunked:
		size = chunkSize(b)
	case f.format == Lines:
		size = bytes.IndexByte(b, '\n') + 1
	case f.format == Events:
		if size = bytes.Index(b, []byte(eventEnd)); size >= 0 {
			size += len(eventEnd)
		}
	case f.format == Delimited:
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)) {
			return len(b)
		}
		size = n + int(length)
	}
	if size <= 0 || size > len(b) {
		return len(b)
	}
	return size
}

// chunkSize returns the length of the chunk that b begins with, and its envelope; 0: there is none.
func chunkSize(b []byte) (size int) {
	for i, c := range b[:min(len(b), maxDigits+1)] {
		switch {
		case '0' <= c && c <= '9':
			size = size<<4 | int(c-'0')
		case 'a' <= c && c <= 'f':
			size = size<<4 | int(c-'a'+10)
		case c == '\r' && i > 0:
			return i + len(crlf) + size + len(crlf)
		default:
			return 0
		}
	}
	return 0
}

// End is the text after the last frame of a body; empty if the body ends with its connection or stream.
func (f *Framer) End() string {
	if f.chunked {
		return "0\r\n\r\n"
	}
	return ""
}
