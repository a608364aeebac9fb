// Package smuggling finds requests of HTTP/1 whose end two servers may see at different places. A proxy
// that takes such a request in another way than net/http lets one client put a request in front of
// another client's. net/http itself accepts Content-Length beside Transfer-Encoding, folded fields, and
// lines that end with LF alone.
package smuggling

import "strings"

// Refusal is for net/http in place of the rest of a refused head. net/http answers it with status 400 and closes the
// connection, wherever the head was cut.
const Refusal = "\x00\r\n\r\n"

// Verdict on bytes.
type Verdict int

const (
	// Passed bytes may be read.
	Passed Verdict = iota
	// Held bytes follow a request for another protocol. They may be read once Answer has ended the wait; until then
	// only one at a time, with a call of Peek for each.
	Held
	// Refused bytes, and all that follow, give way to Refusal.
	Refused
	// Broken bytes, and all that follow, must not be read.
	Broken
)

// Guard follows the requests of one connection. The zero value waits for the first request. A Guard is
// not for concurrent use.
type Guard struct {
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

// head has the facts that decide where a request ends.
type head struct{ length, chunked, upgrade, current bool }

// Names of fields, in lower case.
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

// maxLength bounds the bytes of a body and of a chunk: net/http refuses more.
const maxLength = 1 << 59

// Pass judges bytes that the client sent. The first n have passed; the verdict is on the rest.
func (g *Guard) Pass(data []byte) (n int, v Verdict) {
	for n < len(data) {
		switch g.state {
		case over:
			return len(data), Passed
		case switching:
			return n, Held
		case inBody, inChunk:
			n += g.skip(len(data) - n)
			continue
		default:
			n += g.hurry(data[n:])
			if n == len(data) {
				return n, Passed
			}
		}
		at := g.state
		if at == beforeLF {
			at = g.next
		}
		if !g.step(data[n]) {
			g.state = over
			if at > inHead {
				return n, Broken
			}
			return n, Refused
		}
		n++
	}
	return n, Passed
}

// Peek reports that net/http has read the next one of the held bytes: to wait for the end of the connection it reads
// one byte.
func (g *Guard) Peek(c byte) {
	if g.peeked++; g.peeked == 1 {
		g.first = c
	}
}

// Answer looks at the beginning of an answer that the server sends while bytes are held. If they are held no longer, it
// returns Passed, or Broken if none of them may be read.
func (g *Guard) Answer(data []byte) Verdict {
	const informational, switched = "HTTP/1.1 1", "HTTP/1.1 101"
	text := string(data[:min(len(data), len(switched))])
	switch {
	case text == switched:
		g.state = over
	case strings.HasPrefix(text, informational):
		return Held
	case g.peeked > 1: // a handler took them for another protocol
		g.state = over
		return Broken
	default:
		g.state, g.head = begin, head{}
		if g.peeked > 0 {
			g.step(g.first)
		}
	}
	g.peeked = 0
	return Passed
}

// Holds reports whether bytes are held, so that Answer must see the answers of the server.
func (g *Guard) Holds() bool { return g.state == switching }

// hurry passes over the bytes at the beginning of data that change nothing but the version: most bytes of a head.
func (g *Guard) hurry(data []byte) (n int) {
	switch {
	case g.state == inValue:
		for n < len(data) && data[n] >= ' ' {
			n++
		}
	case g.state == inName && g.named > len(g.name):
		for n < len(data) && data[n] > ' ' && data[n] != ':' {
			n++
		}
	case g.state == inLine:
		for n < len(data) && data[n] >= ' ' {
			g.version = g.version<<8 | uint64(data[n])
			n++
		}
	}
	return n
}

// skip passes over up to n bytes of a body.
func (g *Guard) skip(n int) int {
	k := min(g.left, uint64(n))
	if g.left -= k; g.left == 0 {
		if g.state == inBody {
			g.end()
		} else {
			g.state = afterChunk
		}
	}
	return int(k)
}
