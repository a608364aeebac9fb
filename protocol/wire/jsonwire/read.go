package jsonwire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/gyrohq/gyro/protocol/wire"
)

// ErrTrailing: more than blanks follows the value.
var ErrTrailing = errors.New("JSON: more follows the value")

// Reader reads one JSON value, member by member. After the first error, all further values
// are zero, and loops over members and elements end, so callers look for an error only once,
// by End.
//
// Only the results of Key and StringBytes alias the input.
type Reader struct {
	wire.Maker

	buf   []byte
	pos   int
	depth int
	err   error
	key   []byte // of the current member, unescaped

	traits traits
}

// maxName is the most bytes of a key that FoldedKey folds; no field's name is longer.
const maxName = 32

// NewReader returns a reader of input, all of which must be valid UTF-8.
func NewReader(input []byte) Reader {
	r := Reader{buf: input}
	if !utf8.Valid(input) {
		for r.pos < len(input) {
			c, size := utf8.DecodeRune(input[r.pos:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			r.pos += size
		}
		r.fail("invalid UTF-8")
	}
	return r
}

// End returns the first error, or ErrTrailing.
func (r *Reader) End() error {
	if r.peek(); r.err == nil && r.pos < len(r.buf) {
		return ErrTrailing
	}
	return r.err
}

func (r *Reader) fail(reason string) {
	if r.err != nil {
		return
	}
	if r.key == nil {
		r.err = fmt.Errorf("JSON: offset %d: %s", r.pos, reason)
	} else {
		const most = 64 // the client chooses the length of the key
		r.err = fmt.Errorf("JSON: offset %d, key %q: %s", r.pos, r.key[:min(len(r.key), most)], reason)
	}
	r.pos = len(r.buf)
}

// Object begins an object and moves to its first member. It returns false for null, and if
// there is no member. The members are read by
//
//	for ok := r.Object(); ok; ok = r.NextMember() { … }
//
// where each turn reads exactly one value.
func (r *Reader) Object() bool {
	if !r.open('{', '}', "an object is expected") {
		return false
	}
	return r.member()
}

// NextMember moves to the next member.
func (r *Reader) NextMember() bool {
	return r.next('}') && r.member()
}

// Array is Object for an array and its elements.
func (r *Reader) Array() bool {
	return r.open('[', ']', "an array is expected") && r.count()
}

// NextElement moves to the next element.
func (r *Reader) NextElement() bool {
	return r.next(']') && r.count()
}

// Entry returns the key of the current member of an object that is a map.
func (r *Reader) Entry() string {
	if !r.count() {
		return ""
	}
	return string(r.key)
}

func (r *Reader) count() bool {
	if r.Count() {
		return true
	}
	r.fail("more than " + strconv.Itoa(r.Most()) + " elements")
	return false
}

// Pos is how many bytes of the input were read, Left how many follow.
func (r *Reader) Pos() int  { return r.pos }
func (r *Reader) Left() int { return len(r.buf) - r.pos }

// open enters an object or array. False: it is empty or null.
func (r *Reader) open(first, last byte, otherwise string) bool {
	if r.peek() != first {
		if !r.Null() {
			r.fail(otherwise)
		}
		return false
	}
	if r.depth == MaxDepth {
		r.fail("nested more than " + strconv.Itoa(MaxDepth) + " deep")
		return false
	}
	r.pos++
	if r.peek() == last {
		r.pos++
		return false
	}
	r.depth++
	return true
}

func (r *Reader) next(last byte) bool {
	switch r.peek() {
	case ',':
		r.pos++
		return true
	case last:
		r.pos++
		r.depth--
	default:
		r.fail("',' or '" + string(rune(last)) + "' is expected")
	}
	return false
}

func (r *Reader) member() bool {
	if r.peek() != '"' {
		r.fail("a key is expected")
		return false
	}
	key, escaped, ok := r.scanString()
	if !ok {
		return false
	}
	if escaped {
		key = unescape(make([]byte, 0, len(key)), key)
	}
	r.key = key
	if r.peek() != ':' {
		r.fail("':' is expected")
		return false
	}
	r.pos++
	return true
}

// Key returns the key of the current member, until the next read.
func (r *Reader) Key() []byte { return r.key }

// FoldedKey returns a key with upper-case letters in lower case, else nil. It is for keys that match no field exactly.
func (r *Reader) FoldedKey() []byte {
	if len(r.key) > maxName || bytes.IndexFunc(r.key, isUpper) < 0 {
		return nil
	}
	return bytes.ToLower(r.key)
}

func isUpper(c rune) bool { return 'A' <= c && c <= 'Z' }

// Skip reads a value of any kind.
func (r *Reader) Skip() { r.scanValue() }

// IsString reports whether a string is next.
func (r *Reader) IsString() bool { return r.peek() == '"' }

// Null reads null, if that is next.
func (r *Reader) Null() bool { return r.peek() == 'n' && r.literal("null") }

// String reads a string. Null leaves v unchanged, as in all methods but those for raw values.
func (r *Reader) String(v *string) {
	if s, ok := r.text(); ok {
		*v = string(s)
	}
}

// StringBytes reads a string as bytes, which may alias the input.
func (r *Reader) StringBytes(v *[]byte) {
	if s, ok := r.text(); ok {
		*v = s
	}
}

// SharedString is String in shared memory (wire.Maker).
func (r *Reader) SharedString(v *string) {
	if s, ok := r.text(); ok {
		*v = r.Text(s)
	}
}

// text reads a string, which may alias the input; !ok: null.
func (r *Reader) text() (s []byte, ok bool) {
	if r.peek() != '"' {
		if !r.Null() {
			r.fail("a string is expected")
		}
		return nil, false
	}
	s, escaped, ok := r.scanString()
	if escaped {
		s = unescape(make([]byte, 0, len(s)), s)
	}
	return s, ok
}

// Bool reads true or false.
func (r *Reader) Bool(v *bool) {
	switch {
	case r.Null():
	case r.peek() == 't' && r.literal("true"):
		*v = true
	case r.peek() == 'f' && r.literal("false"):
		*v = false
	default:
		r.fail("true or false is expected")
	}
}

// Raw reads the bytes of any value, null included.
func (r *Reader) Raw(v *[]byte) {
	if p, ok := r.raw(); ok {
		*v = bytes.Clone(p)
	}
}

// SharedRaw is Raw in shared memory.
func (r *Reader) SharedRaw(v *[]byte) {
	if p, ok := r.raw(); ok {
		*v = r.Copy(p)
	}
}

func (r *Reader) raw() (p []byte, ok bool) {
	r.peek()
	start := r.pos
	ok = r.scanValue()
	return r.buf[start:r.pos], ok
}

// Cut returns the first value in p, of any kind, and the rest, without blanks around them.
func Cut(p []byte) (value, rest []byte, err error) {
	r := Reader{buf: p}
	value, _ = r.raw()
	r.peek()
	return value, p[r.pos:], r.err
}

// Int32 reads an integer.
func (r *Reader) Int32(v *int32) {
	if n, ok := r.signed(32); ok {
		*v = int32(n)
	}
}

// Int64 reads an integer.
func (r *Reader) Int64(v *int64) {
	if n, ok := r.signed(64); ok {
		*v = n
	}
}

// Uint32 reads an integer.
func (r *Reader) Uint32(v *uint32) {
	if n, ok := r.unsigned(32); ok {
		*v = uint32(n)
	}
}

// Uint64 reads an integer.
func (r *Reader) Uint64(v *uint64) {
	if n, ok := r.unsigned(64); ok {
		*v = n
	}
}

// Double reads a number.
func (r *Reader) Double(v *float64) {
	digits, ok := r.number()
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(string(digits), 64)
	if err != nil {
		r.fail("a number of 64 bits is expected")
		return
	}
	*v = n
}

func (r *Reader) signed(size int) (int64, bool) {
	digits, ok := r.number()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(digits), 10, size)
	if err != nil {
		r.fail("a signed integer of " + strconv.Itoa(size) + " bits is expected")
	}
	return n, err == nil
}

func (r *Reader) unsigned(size int) (uint64, bool) {
	digits, ok := r.number()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(string(digits), 10, size)
	if err != nil {
		r.fail("an unsigned integer of " + strconv.Itoa(size) + " bits is expected")
	}
	return n, err == nil
}

func (r *Reader) number() (digits []byte, ok bool) {
	if r.Null() {
		return nil, false
	}
	r.peek()
	end := skipNumber(r.buf, r.pos)
	if end < 0 {
		r.fail("an integer is expected")
		return nil, false
	}
	digits = r.buf[r.pos:end]
	r.pos = end
	return digits, true
}

// peek returns the next byte that is not blank, 0 at the end. It is inlined.
func (r *Reader) peek() byte {
	if r.pos < len(r.buf) && r.buf[r.pos] > ' ' {
		return r.buf[r.pos]
	}
	return r.peekBehindBlanks()
}

func (r *Reader) peekBehindBlanks() byte {
	for ; r.pos < len(r.buf); r.pos++ {
		switch c := r.buf[r.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *Reader) literal(word string) bool {
	if end := r.pos + len(word); end <= len(r.buf) && string(r.buf[r.pos:end]) == word {
		r.pos = end
		return true
	}
	return false
}

func (r *Reader) scanValue() bool {
	if r.pos < len(r.buf) && r.depth < MaxDepth {
		if end := skipSimple(r.buf, r.pos); end > 0 {
			r.pos = end
			return true
		}
	}
	end := skipValue(r.buf, r.pos, MaxDepth-r.depth, &r.traits)
	if end < 0 {
		r.malformed(^end)
		return false
	}
	r.pos = end
	return true
}

// scanString returns the bytes between the quotes.
func (r *Reader) scanString() (s []byte, escaped, ok bool) {
	r.traits.escapes = false
	end := skipString(r.buf, r.pos, &r.traits)
	if end < 0 {
		r.malformed(^end)
		return nil, false, false
	}
	s = r.buf[r.pos+1 : end-1]
	r.pos = end
	return s, r.traits.escapes, true
}

func (r *Reader) malformed(pos int) {
	r.pos = pos
	switch {
	case r.traits.deep:
		r.fail("nested more than " + strconv.Itoa(MaxDepth) + " deep")
	case pos >= len(r.buf):
		r.fail("unexpected end")
	case r.buf[pos] == '\\':
		r.fail("malformed escape sequence")
	case r.buf[pos] < ' ':
		r.fail("unexpected control character")
	default:
		r.fail("unexpected character")
	}
}

// unescape appends the text of s, the inside of a valid JSON string.
func unescape(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		c := s[i+1]
		s = s[i+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			var r rune
			r, s = unescapeRune(s)
			dst = utf8.AppendRune(dst, r)
		default: // quote, backslash, slash
			dst = append(dst, c)
		}
	}
}

// unescapeRune reads the digits after \u, and those of a second surrogate. A half without the other one is U+FFFD.
func unescapeRune(s []byte) (r rune, rest []byte) {
	r, _ = hex4(s)
	s = s[4:]
	if r < 0xd800 || r > 0xdfff {
		return r, s
	}
	if r < 0xdc00 && len(s) >= 6 && s[0] == '\\' && s[1] == 'u' {
		if low, _ := hex4(s[2:]); low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, s[6:]
		}
	}
	return utf8.RuneError, s
}
