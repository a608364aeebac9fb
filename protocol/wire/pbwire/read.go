// Package pbwire reads and writes the Protobuf form of messages, for generated code, without reflection.
package pbwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/gyrohq/gyro/protocol/wire"
)

// MaxDepth bounds the nesting of messages and groups.
const MaxDepth = 512

const (
	wireVarint = iota
	wireFixed64
	wireBytes
	wireStartGroup
	wireEndGroup
	wireFixed32
)

const maxField = 1<<29 - 1

// Reader reads one message, field by field. After the first error, all further values are
// zero, and loops over fields end, so callers look for an error only once, by Err.
//
// Nothing that it returns aliases the input, except from NewBorrowingReader.
type Reader struct {
	wire.Maker

	buf    []byte // up to the end of the current message
	all    []byte
	pos    int
	depth  int
	tag    uint64
	err    error
	borrow bool
}

// NewReader returns a reader of one message.
func NewReader(input []byte) Reader { return Reader{buf: input, all: input} }

// NewBorrowingReader returns a reader that returns parts of input instead of copies. input must never change again.
func NewBorrowingReader(input []byte) Reader { return Reader{buf: input, all: input, borrow: true} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(reason string) {
	if r.err == nil {
		r.err = fmt.Errorf("protobuf: offset %d, field %d: %s", r.pos, r.tag>>3, reason)
		r.pos = len(r.buf)
	}
}

// Next moves to the next field; false: there is none.
func (r *Reader) Next() bool {
	if r.err != nil || r.pos >= len(r.buf) {
		return false
	}
	r.tag = r.Varint()
	if field := r.tag >> 3; r.err == nil && (field == 0 || field > maxField) {
		r.fail("invalid field number")
	}
	return r.err == nil
}

// Pos is how many bytes were read, Left how many follow.
func (r *Reader) Pos() int  { return r.pos }
func (r *Reader) Left() int { return len(r.buf) - r.pos }

// Element counts an element of a list or an entry of a map before it is read.
func (r *Reader) Element() {
	if !r.Count() {
		r.fail("more than " + strconv.Itoa(r.Most()) + " elements")
	}
}

// Tag returns number and wire type of the current field: number<<3 | type.
func (r *Reader) Tag() uint64 { return r.tag }

// Enter goes into the message of the current field. Leave, with the result, goes back.
func (r *Reader) Enter() (outer int) {
	outer = len(r.buf)
	size := r.length()
	if r.depth++; r.depth > MaxDepth {
		r.fail("nested more than " + strconv.Itoa(MaxDepth) + " deep")
		return outer
	}
	r.buf = r.buf[:r.pos+size]
	return outer
}

// Leave goes back to the outer message.
func (r *Reader) Leave(outer int) {
	r.depth--
	r.buf = r.all[:outer]
	if r.err != nil {
		r.pos = outer
	}
}

// Varint reads a number. As Protobuf demands, one too large for the type of the field loses its upper bits.
func (r *Reader) Varint() uint64 {
	v, n := binary.Uvarint(r.buf[r.pos:])
	if n <= 0 {
		r.fail("truncated or overlong varint")
		return 0
	}
	r.pos += n
	return v
}

// Bool reads a truth value.
func (r *Reader) Bool() bool { return r.Varint() != 0 }

// Int32 reads a number.
func (r *Reader) Int32() int32 { return int32(r.Varint()) }

// Int64 reads a number.
func (r *Reader) Int64() int64 { return int64(r.Varint()) }

// Uint32 reads a number.
func (r *Reader) Uint32() uint32 { return uint32(r.Varint()) }

// Uint64 reads a number.
func (r *Reader) Uint64() uint64 { return r.Varint() }

// Sint64 reads a number in zigzag form.
func (r *Reader) Sint64() int64 {
	v := r.Varint()
	return int64(v>>1) ^ -int64(v&1)
}

// Double reads a number.
func (r *Reader) Double() float64 {
	if len(r.buf)-r.pos < 8 {
		r.fail("truncated")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.buf[r.pos:])
	r.pos += 8
	return math.Float64frombits(v)
}

// String reads a text, which must be UTF-8.
func (r *Reader) String() string {
	p := r.text()
	if r.borrow {
		return unsafe.String(unsafe.SliceData(p), len(p))
	}
	return string(p)
}

// SharedString is String in shared memory (wire.Maker).
func (r *Reader) SharedString() string { return r.Text(r.text()) }

func (r *Reader) text() []byte {
	p := r.bytes()
	if !utf8.Valid(p) {
		r.fail("invalid UTF-8")
		return nil
	}
	return p
}

// Bytes reads a copy, nil if it is empty.
func (r *Reader) Bytes() []byte {
	p := r.bytes()
	switch {
	case len(p) == 0:
		return nil
	case r.borrow:
		return p[:len(p):len(p)]
	}
	return bytes.Clone(p)
}

// SharedBytes is Bytes in shared memory.
func (r *Reader) SharedBytes() []byte {
	if p := r.bytes(); len(p) > 0 {
		return r.Copy(p)
	}
	return nil
}

func (r *Reader) bytes() []byte {
	size := r.length()
	p := r.buf[r.pos : r.pos+size]
	r.pos += size
	return p
}

// length fails if fewer bytes follow.
func (r *Reader) length() int {
	size := r.Varint()
	if size > uint64(len(r.buf)-r.pos) {
		r.fail("truncated")
		return 0
	}
	return int(size)
}

// Skip skips a value of any wire type.
func (r *Reader) Skip() {
	switch r.tag & 7 {
	case wireVarint:
		r.Varint()
	case wireFixed64:
		r.skip(8)
	case wireBytes:
		r.bytes()
	case wireStartGroup:
		r.skipGroup()
	case wireFixed32:
		r.skip(4)
	default: // wireEndGroup without a start, or undefined
		r.fail("invalid wire type")
	}
}

func (r *Reader) skip(n int) {
	if n > len(r.buf)-r.pos {
		r.fail("truncated")
		return
	}
	r.pos += n
}

func (r *Reader) skipGroup() {
	if r.depth++; r.depth > MaxDepth {
		r.fail("nested more than " + strconv.Itoa(MaxDepth) + " deep")
		return
	}
	end := r.tag&^7 | wireEndGroup
	for r.Next() {
		if r.tag == end {
			r.depth--
			return
		}
		r.Skip()
	}
	r.fail("group without end")
}
