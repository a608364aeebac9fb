// Package smuggling finds requests of HTTP/1 whose end two servers may see at different places. A proxy that takes one
// in another way than net/http lets a client put a request in front of another client's. net/http accepts Content-Length
// beside Transfer-Encoding, folded fields, and lines that end with LF alone.
package smuggling

import "strings"

// Refusal stands for the rest of a refused head, wherever that was cut: net/http answers it with status 400 and closes
// the connection.
const Refusal = "\x00\r\n\r\n"

// Verdict on bytes.
type Verdict int

const (
	// Passed bytes may be read.
	Passed Verdict = iota
	// Waiting bytes follow a request for another protocol. Until Answer ends the wait, they may be read one at a time,
	// each with a call of Peek.
	Waiting
	// Refused bytes, and all that follow, give way to Refusal.
	Refused
	// Broken bytes, and all that follow, must not be read.
	Broken
)

// Filter follows the requests of one connection, from the first one on. It is not for concurrent use.
type Filter struct {
	state   state
	next    state  // after the LF that must follow
	head    head   // of the request that was read last
	left    uint64 // missing bytes of the body or chunk, or the digits of their number so far
	version uint64 // the last bytes of the request line
	name    [len(encoding)]byte
	named   int  // bytes of the field's name; above len(name): no name that matters
	peeked  int  // bytes that were read while the rest was held
	first   byte // the first of these
}

type head struct{ length, chunked, upgrade, current bool }

const (
	length   = "content-length"
	encoding = "transfer-encoding"
	upgrade  = "upgrade"
)

// Ends of request lines, as numbers.
const (
	version1  = 'H'<<56 | 'T'<<48 | 'T'<<40 | 'P'<<32 | '/'<<24 | '1'<<16 | '.'<<8
	version11 = version1 | '1'
	version20 = version1 + 1<<16 | '0'
)

// maxLength bounds the bytes of a body and of a chunk, as net/http does.
const maxLength = 1 << 59

// Pass judges bytes of the client: n have passed, the verdict is on the rest.
func (f *Filter) Pass(data []byte) (n int, v Verdict) {
	for n < len(data) {
		switch f.state {
		case over:
			return len(data), Passed
		case switching:
			return n, Waiting
		case inBody, inChunk:
			n += f.skip(len(data) - n)
			continue
		default:
			n += f.hurry(data[n:])
			if n == len(data) {
				return n, Passed
			}
		}
		at := f.state
		if at == beforeLF {
			at = f.next
		}
		if !f.step(data[n]) {
			f.state = over
			if at > inHead {
				return n, Broken
			}
			return n, Refused
		}
		n++
	}
	return n, Passed
}

// Peek reports that net/http has read a waiting byte: to wait for the end of the connection it reads one.
func (f *Filter) Peek(c byte) {
	if f.peeked++; f.peeked == 1 {
		f.first = c
	}
}

// Answer looks at the beginning of an answer of the server while bytes wait. If the wait is over, it returns Passed, or
// Broken if none of them may be read.
func (f *Filter) Answer(data []byte) Verdict {
	const informational, switched = "HTTP/1.1 1", "HTTP/1.1 101"
	text := string(data[:min(len(data), len(switched))])
	switch {
	case text == switched:
		f.state = over
	case strings.HasPrefix(text, informational):
		return Waiting
	case f.peeked > 1: // a handler took them for another protocol
		f.state = over
		return Broken
	default:
		f.state, f.head = begin, head{}
		if f.peeked > 0 {
			f.step(f.first)
		}
	}
	f.peeked = 0
	return Passed
}

// Waits reports whether bytes wait, so that Answer must see the answers.
func (f *Filter) Waits() bool { return f.state == switching }

// hurry passes over bytes that change nothing but the version: most of a head.
func (f *Filter) hurry(data []byte) (n int) {
	switch {
	case f.state == inValue:
		for n < len(data) && data[n] >= ' ' {
			n++
		}
	case f.state == inName && f.named > len(f.name):
		for n < len(data) && data[n] > ' ' && data[n] != ':' {
			n++
		}
	case f.state == inLine:
		for n < len(data) && data[n] >= ' ' {
			f.version = f.version<<8 | uint64(data[n])
			n++
		}
	}
	return n
}

func (f *Filter) skip(n int) int {
	k := min(f.left, uint64(n))
	if f.left -= k; f.left == 0 {
		if f.state == inBody {
			f.end()
		} else {
			f.state = afterChunk
		}
	}
	return int(k)
}
