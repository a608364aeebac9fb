// Package resp reads the values of a Redis server, in RESP2 or RESP3, without an allocation per value: payloads are
// parts of the chunks that they were received in.
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

const (
	maxValues = 4096     // nested ones included
	maxDepth  = 8        // of nesting
	maxLine   = 64 << 10 // bytes of a simple string, error or number
)

// Frame is one value as received. Its slices are parts of the reader's chunk.
type Frame struct {
	// Kind is the byte that the value begins with: '+', '-', ':', '$', '*', '>', ...
	Kind byte
	// Text of a value that is no aggregate, or nil.
	Text []byte
	// Len of an aggregate, with keys and values of a map; -1: null.
	Len int
	// Items are the texts of the first elements; nil for null, missing and aggregates.
	Items [3][]byte
}

// ProtocolError is the error of bytes that are not RESP or exceed a bound.
type ProtocolError struct{ msg string }

func (e *ProtocolError) Error() string { return "RESP: " + e.msg }

var errShort = errors.New("more bytes needed")

type parser struct {
	buf    []byte
	pos    int
	values int // how many values may follow
	max    int // bytes of the whole value
	need   int // with errShort: the length of buf that is needed to get further
}

// parse returns the length of a value or, with errShort, how many bytes are needed to get further.
func (f *Frame) parse(buf []byte, limit int) (int, error) {
	*f = Frame{}
	p := parser{buf: buf, values: maxValues, max: limit}
	if err := p.top(f); err != nil {
		if errors.Is(err, errShort) {
			return max(p.need, len(buf)+1), err
		}
		return 0, err
	}
	if p.pos > limit {
		return 0, p.tooLarge(p.pos)
	}
	return p.pos, nil
}

// usual follows the type of most values.
const usual = "3\r\n$7\r\nmessage\r\n"

// message takes a fifth less time than the general way.
func (p *parser) message(f *Frame) (err error) {
	const verb = 1 + len("3\r\n$7\r\n")
	f.Len, p.pos, p.values = 3, 1+len(usual), p.values-3
	f.Items[0] = p.buf[verb : verb+len("message") : verb+len("message")]
	if f.Items[1], err = p.element(1); err == nil {
		f.Items[2], err = p.element(1)
	}
	return err
}

func (p *parser) top(f *Frame) error {
	if len(p.buf) == 0 {
		return errShort
	}
	f.Kind = p.buf[0]
	if (f.Kind == '*' || f.Kind == '>') && len(p.buf) > len(usual) && string(p.buf[1:1+len(usual)]) == usual {
		return p.message(f)
	}
	if !aggregate(f.Kind) {
		text, err := p.scalar()
		f.Text = text
		return err
	}
	n, err := p.count()
	f.Len = n
	for i := 0; i < n && err == nil; i++ {
		if i >= len(f.Items) {
			err = p.skip(1)
		} else {
			f.Items[i], err = p.element(1)
		}
	}
	return err
}

func aggregate(kind byte) bool {
	switch kind {
	case '*', '>', '~', '%', '|':
		return true
	}
	return false
}

func (p *parser) element(depth int) ([]byte, error) {
	if p.pos >= len(p.buf) {
		return nil, errShort
	}
	if aggregate(p.buf[p.pos]) {
		return nil, p.skip(depth)
	}
	return p.scalar()
}

func (p *parser) skip(depth int) error {
	if p.pos >= len(p.buf) {
		return errShort
	}
	if !aggregate(p.buf[p.pos]) {
		_, err := p.scalar()
		return err
	}
	if depth >= maxDepth {
		return &ProtocolError{fmt.Sprintf("aggregates nested more than %d deep", maxDepth)}
	}
	n, err := p.count()
	for ; n > 0 && err == nil; n-- {
		err = p.skip(depth + 1)
	}
	return err
}

func (p *parser) count() (int, error) {
	kind := p.buf[p.pos]
	n, err := p.length()
	switch {
	case err != nil:
		return 0, err
	case n < 0 && kind != '*':
		return 0, &ProtocolError{"negative number of elements"}
	case kind == '%' || kind == '|':
		n = min(n, maxValues) * 2 // the min keeps it from overflowing
	}
	if n > p.values {
		return 0, &ProtocolError{fmt.Sprintf("value of more than %d elements", maxValues)}
	}
	p.values -= max(n, 0)
	return n, nil
}

func (p *parser) scalar() ([]byte, error) {
	switch kind := p.buf[p.pos]; kind {
	case '$', '=', '!':
		return p.bulk()
	case '+', '-', ':', ',', '(', '#':
		return p.line()
	case '_':
		text, err := p.line()
		if err == nil && len(text) > 0 {
			err = &ProtocolError{"null with a text"}
		}
		return nil, err
	default:
		return nil, &ProtocolError{fmt.Sprintf("unknown type %q", kind)}
	}
}

func (p *parser) bulk() ([]byte, error) {
	n, err := p.length()
	if err != nil || n < 0 {
		return nil, err
	}
	if n > p.max-p.pos-2 { // so that the sum below cannot overflow
		return nil, p.tooLarge(n)
	}
	end := p.pos + n
	if end+2 > len(p.buf) {
		p.need = end + 2
		return nil, errShort
	}
	if p.buf[end] != '\r' || p.buf[end+1] != '\n' {
		return nil, &ProtocolError{"string does not end where its length says"}
	}
	text := p.buf[p.pos:end:end]
	p.pos = end + 2
	return text, nil
}

func (p *parser) line() ([]byte, error) {
	rest := p.buf[p.pos+1:]
	i := bytes.IndexByte(rest, '\n')
	switch {
	case i > maxLine || i < 0 && len(rest) > maxLine:
		return nil, &ProtocolError{fmt.Sprintf("line of more than %d bytes", maxLine)}
	case i < 0:
		return nil, errShort
	case i == 0 || rest[i-1] != '\r':
		return nil, &ProtocolError{"line does not end with CRLF"}
	}
	p.pos += i + 2
	return rest[: i-1 : i-1], nil
}

// length reads digits, or -1 for null.
func (p *parser) length() (int, error) {
	n, i := 0, p.pos+1
	for ; i < len(p.buf); i++ {
		c := p.buf[i]
		if c < '0' || c > '9' {
			break
		}
		if n > (math.MaxInt32-9)/10 { // four times what Redis has
			return 0, &ProtocolError{"length out of range"}
		}
		n = n*10 + int(c-'0')
	}
	if i == len(p.buf) {
		return 0, errShort
	}
	first := p.pos + 1
	if i == first && p.buf[i] == '-' { // null
		if i+1 == len(p.buf) {
			return 0, errShort
		}
		if p.buf[i+1] != '1' {
			return 0, &ProtocolError{"negative length"}
		}
		n, i = -1, i+2
	} else if i == first {
		return 0, &ProtocolError{"length is not a number"}
	}
	if i+1 >= len(p.buf) && (i == len(p.buf) || p.buf[i] == '\r') {
		return 0, errShort
	}
	if p.buf[i] != '\r' || p.buf[i+1] != '\n' {
		return 0, &ProtocolError{"length is not a number"}
	}
	p.pos = i + 2
	return n, nil
}

func (p *parser) tooLarge(n int) error {
	return &ProtocolError{fmt.Sprintf("value of %d bytes or more exceeds the limit of %d", n, p.max)}
}
