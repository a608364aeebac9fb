// Package jsonx reads and writes the JSON of the server API without reflection:
// the publish endpoint is on the hot path of every backend. The benchmarks of
// this package hold the comparison with encoding/json.
//
// The semantics are those of server-api.md section 3.1: member names match
// without regard to ASCII case, null is the zero value, a repeated member wins
// over the earlier one, and any mismatch of types is an error.
package jsonx

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
)

const (
	// MaxDepth is the deepest nesting of arrays and objects in a value that is
	// accepted. Payloads that are nested deeper could not be delivered to JSON
	// clients: this is the limit of package codec as well.
	MaxDepth = 512
	// MaxElements is the most list elements and map members that one document may
	// make the decoder keep. It bounds what a body of the largest size costs in
	// memory: three bytes of JSON are dozens of bytes of Go.
	MaxElements = 1 << 20
	// maxNameLen is longer than every member name of the API.
	maxNameLen = 32
)

// SyntaxError tells what is wrong with a document, and where.
type SyntaxError struct {
	// Offset in bytes from the start of the document.
	Offset int
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Msg)
}

// Decoder reads one document from a byte slice, which it never keeps. The first
// error sticks: every later call does nothing and returns a zero value, so that
// callers look at Err once, at the end.
//
// Objects and arrays are walked with
//
//	for ok := d.Object(); ok; ok = d.NextMember() {
//		switch string(d.Name()) {
//		case "channel":
//			r.Channel = d.String()
//		default:
//			d.Skip()
//		}
//	}
//
// where each turn must consume exactly one value.
type Decoder struct {
	data     []byte
	pos      int
	err      error
	elements int
	name     []byte
	lower    [maxNameLen]byte
}

// NewDecoder returns a decoder of data, which must not change while it is used.
func NewDecoder(data []byte) Decoder { return Decoder{data: data} }

// Err returns the first error, a *SyntaxError.
func (d *Decoder) Err() error { return d.err }

// End makes anything but white space after the document an error and returns Err.
func (d *Decoder) End() error {
	if d.err == nil && d.More() {
		d.fail("unexpected data after the value")
	}
	return d.err
}

// More skips white space and reports whether anything follows.
func (d *Decoder) More() bool {
	d.space()
	return d.err == nil && d.pos < len(d.data)
}

func (d *Decoder) fail(msg string) {
	if d.err == nil {
		d.err = &SyntaxError{Offset: d.pos, Msg: msg}
	}
}

// space skips white space.
func (d *Decoder) space() {
	data, i := d.data, d.pos
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	d.pos = i
}

// peek returns the first byte of the next token; 0 at the end or after an error.
func (d *Decoder) peek() byte {
	if d.err != nil {
		return 0
	}
	// Nearly always there is no space, or one.
	data, i := d.data, d.pos
	if i < len(data) && data[i] == ' ' {
		i++
	}
	if i < len(data) && data[i] > ' ' {
		d.pos = i
		return data[i]
	}
	if d.space(); d.pos == len(data) {
		d.fail("unexpected end")
		return 0
	}
	return data[d.pos]
}

// literal consumes one of true, false and null.
func (d *Decoder) literal(s string) bool {
	if !bytes.HasPrefix(d.data[d.pos:], []byte(s)) {
		d.fail("invalid literal")
		return false
	}
	d.pos += len(s)
	return true
}

// Null consumes the value if it is null and reports whether it was.
func (d *Decoder) Null() bool { return d.peek() == 'n' && d.literal("null") }

// Object begins an object. It returns false if there is no first member: the
// object is empty, or null, or there is an error.
func (d *Decoder) Object() bool {
	if !d.begin('{', "object expected") {
		return false
	}
	if d.peek() == '}' {
		d.pos++
		return false
	}
	return d.member()
}

// NextMember goes on to the next member of the current object.
func (d *Decoder) NextMember() bool { return d.next('}', "',' or '}' expected") && d.member() }

// Array begins an array, like Object.
func (d *Decoder) Array() bool {
	if !d.begin('[', "array expected") {
		return false
	}
	if d.peek() == ']' {
		d.pos++
		return false
	}
	return d.element()
}

// NextElement goes on to the next element of the current array.
func (d *Decoder) NextElement() bool { return d.next(']', "',' or ']' expected") && d.element() }

func (d *Decoder) begin(open byte, msg string) bool {
	switch d.peek() {
	case open:
		d.pos++
		return true
	case 'n':
		d.literal("null")
	default:
		d.fail(msg)
	}
	return false
}

func (d *Decoder) next(closing byte, msg string) bool {
	switch d.peek() {
	case ',':
		d.pos++
		return true
	case closing:
		d.pos++
	default:
		d.fail(msg)
	}
	return false
}

// element counts an element that the caller is going to keep.
func (d *Decoder) element() bool {
	if d.elements++; d.elements > MaxElements {
		d.fail("more than " + strconv.Itoa(MaxElements) + " elements")
	}
	return d.err == nil
}

func (d *Decoder) member() bool {
	d.name = d.rawName()
	if d.peek() != ':' {
		d.fail("':' expected")
		return false
	}
	d.pos++
	return d.err == nil
}

// rawName returns the next string, unescaped, possibly a part of the document.
func (d *Decoder) rawName() []byte {
	if d.peek() != '"' {
		d.fail("member name expected")
		return nil
	}
	start := d.pos + 1
	if escaped := d.skipString(); escaped {
		return d.unescape(d.data[start : d.pos-1])
	}
	if d.err != nil {
		return nil
	}
	return d.data[start : d.pos-1]
}

// Name returns the current member's name in ASCII lower case, valid until the
// next call. A name longer than any name of the API may come unchanged.
func (d *Decoder) Name() []byte {
	if len(d.name) > maxNameLen {
		return d.name
	}
	for _, c := range d.name {
		if 'A' <= c && c <= 'Z' {
			return d.lowerName()
		}
	}
	return d.name
}

func (d *Decoder) lowerName() []byte {
	for i, c := range d.name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		d.lower[i] = c
	}
	return d.lower[:len(d.name)]
}

// String reads a string; null is "".
func (d *Decoder) String() string { return string(d.StringView()) }

// StringView is String without the copy: the bytes may be a part of the document.
func (d *Decoder) StringView() []byte {
	switch d.peek() {
	case '"':
		start := d.pos + 1
		escaped := d.skipString()
		if d.err != nil {
			return nil
		}
		if escaped {
			return d.unescape(d.data[start : d.pos-1])
		}
		return d.data[start : d.pos-1]
	case 'n':
		d.literal("null")
	default:
		d.fail("string expected")
	}
	return nil
}

// Bool reads a boolean; null is false.
func (d *Decoder) Bool() bool {
	switch d.peek() {
	case 't':
		return d.literal("true")
	case 'f':
		d.literal("false")
	case 'n':
		d.literal("null")
	default:
		d.fail("boolean expected")
	}
	return false
}

// Int64 reads an integer; null is 0.
func (d *Decoder) Int64() int64 { return d.int(math.MinInt64, math.MaxInt64) }

// Int32 reads an integer that fits 32 bits; null is 0.
func (d *Decoder) Int32() int32 { return int32(d.int(math.MinInt32, math.MaxInt32)) }

// Uint64 reads a non-negative integer; null is 0.
func (d *Decoder) Uint64() uint64 { return d.uint(math.MaxUint64) }

// Uint32 reads a non-negative integer that fits 32 bits; null is 0.
func (d *Decoder) Uint32() uint32 { return uint32(d.uint(math.MaxUint32)) }

func (d *Decoder) int(lo, hi int64) int64 {
	tok := d.integer()
	if tok == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(tok), 10, 64)
	if err != nil || n < lo || n > hi {
		d.fail("integer out of range")
		return 0
	}
	return n
}

func (d *Decoder) uint(hi uint64) uint64 {
	tok := d.integer()
	if tok == nil {
		return 0
	}
	n, err := strconv.ParseUint(string(tok), 10, 64)
	if err != nil || n > hi {
		d.fail("integer out of range")
		return 0
	}
	return n
}

// integer returns the text of a number without fraction and exponent; nil for
// null and after an error.
func (d *Decoder) integer() []byte {
	c := d.peek()
	if c == 'n' {
		d.literal("null")
		return nil
	}
	if c != '-' && (c < '0' || c > '9') {
		d.fail("integer expected")
		return nil
	}
	start := d.pos
	d.skipNumber()
	tok := d.data[start:d.pos]
	if d.err == nil && bytes.ContainsAny(tok, ".eE") {
		d.fail("integer expected")
	}
	if d.err != nil {
		return nil
	}
	return tok
}

// IsString reports whether the value is a string, without consuming it.
func (d *Decoder) IsString() bool { return d.peek() == '"' }

// Raw reads any value and returns a copy of its bytes exactly as they came.
func (d *Decoder) Raw() []byte { return bytes.Clone(d.RawView()) }

// RawView is Raw without the copy.
func (d *Decoder) RawView() []byte {
	d.peek()
	start := d.pos
	d.Skip()
	if d.err != nil {
		return nil
	}
	return d.data[start:d.pos:d.pos]
}

// Strings reads an array of strings; null is nil, a null element "". The strings
// share memory.
func (d *Decoder) Strings() []string {
	var s []string
	var text Arena
	start := d.pos
	for ok := d.Array(); ok; ok = d.NextElement() {
		if len(s) == cap(s) {
			s = slices.Grow(s, d.Expect(len(s), start))
		}
		s = append(s, text.String(d.StringView()))
	}
	return s
}

// Pos is how much of the document was read, in bytes.
func (d *Decoder) Pos() int { return d.pos }

// Expect estimates how many elements are to come of an array that began at the
// position start, and of which n were read: as many as the rest of the document would
// have of the same length. It never makes more room than eight times what is used.
func (d *Decoder) Expect(n, start int) int {
	if n < 8 {
		return 8
	}
	rest := (len(d.data)-d.pos)/((d.pos-start)/n) + 8
	return min(rest, 8*n, MaxElements)
}

// StringMap reads an object whose members are strings; null is nil, a null
// member "".
func (d *Decoder) StringMap() map[string]string {
	var m map[string]string
	for ok := d.Object(); ok; ok = d.NextMember() {
		if m == nil {
			m = make(map[string]string)
		}
		name := string(d.name)
		if !d.element() {
			break
		}
		m[name] = d.String()
	}
	return m
}
