package jsonwire

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// ErrNotJSON: a payload is not exactly one JSON value in valid UTF-8, or is nested more than MaxDepth deep.
var ErrNotJSON = errors.New("payload is not valid JSON")

// AppendRaw appends a payload without its LF and CR, which would break the framing; valid JSON has them only between
// tokens.
func AppendRaw(dst, payload []byte) ([]byte, error) {
	ok, lines := Check(payload)
	if !ok {
		return dst, ErrNotJSON
	}
	if !lines {
		return append(dst, payload...), nil
	}
	for _, c := range payload {
		if c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst, nil
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	// AppendBytes only reads the bytes, and does not keep them.
	return AppendBytes(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// AppendBytes appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendBytes(dst, s []byte) []byte {
	start, end := len(dst)+1, len(dst)+1+len(s)
	dst = slices.Grow(dst, len(s)+2)[:end+1]
	dst[start-1] = '"'
	if copyPlain(dst[start:end:end], s) {
		dst[end] = '"'
		return dst
	}
	return appendEscaped(dst[:start], s)
}

// copyPlain copies s to dst, which is as long, if all of s is ASCII that needs no escape.
func copyPlain(dst, s []byte) bool {
	for len(s) > 8 {
		x := binary.LittleEndian.Uint64(s)
		if (special(x)|x)&highs != 0 {
			return false
		}
		binary.LittleEndian.PutUint64(dst, x)
		s, dst = s[8:], dst[8:]
	}
	if len(s) >= 4 { // two halves that overlap
		x, y := binary.LittleEndian.Uint32(s), binary.LittleEndian.Uint32(s[len(s)-4:])
		xy := uint64(x) | uint64(y)<<32
		if (special(xy)|xy)&highs != 0 {
			return false
		}
		binary.LittleEndian.PutUint32(dst, x)
		binary.LittleEndian.PutUint32(dst[len(s)-4:], y)
		return true
	}
	for i, c := range s {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
		dst[i] = c
	}
	return true
}

// appendEscaped appends the inside of a JSON string and the closing quote.
func appendEscaped(dst, s []byte) []byte {
	start := 0 // of the part that is not appended yet
	for i := 0; i < len(s); {
		i = asciiEnd(s, i)
		if i == len(s) {
			break
		}
		if s[i] < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[start:i]...), s[i])
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = utf8.AppendRune(append(dst, s[start:i]...), utf8.RuneError)
			start = i + 1
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// asciiEnd returns the index, from i on, of the first character that is not ASCII or needs an escape; len(s): none.
func asciiEnd(s []byte, i int) int {
	rest := s[i:]
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		if m := (special(x) | x) & highs; m != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(m)/8
		}
		rest = rest[8:]
	}
	if len(rest) >= 4 { // two halves that overlap
		x := uint64(binary.LittleEndian.Uint32(rest)) | uint64(binary.LittleEndian.Uint32(rest[len(rest)-4:]))<<32
		if (special(x)|x)&highs == 0 {
			return len(s)
		}
	}
	for i, c := range rest {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return len(s) - len(rest) + i
		}
	}
	return len(s)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// AppendUint writes each digit to its place. strconv.AppendUint copies digits that it has just written, in pieces of
// another size, so the processor waits until its store buffer is empty.
func AppendUint(dst []byte, n uint64) []byte {
	i := len(dst) + digits(n)
	dst = slices.Grow(dst, i-len(dst))[:i]
	for n >= 100 {
		q := n / 100
		i -= 2
		pair := pairs[2*(n-100*q):]
		dst[i], dst[i+1] = pair[0], pair[1]
		n = q
	}
	if n >= 10 {
		dst[i-2], dst[i-1] = pairs[2*n], pairs[2*n+1]
	} else {
		dst[i-1] = byte('0' + n)
	}
	return dst
}

// AppendDouble appends the shortest number that reads back the same; 0 for NaN and infinity, which JSON does not have.
func AppendDouble(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) { // as encoding/json writes it
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

func digits(n uint64) int {
	d := bits.Len64(n|1) * 1233 >> 12 // 1233/4096 is a little more than log10(2)
	if n >= powers[d%len(powers)] {
		d++
	}
	return d
}

// The first is 0 instead of 1, because zero has one digit.
var powers = [20]uint64{
	0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// EndObject closes an object whose members have a comma after them.
func EndObject(dst []byte) []byte { return end(dst, '}') }

// EndArray closes an array whose elements have a comma after them.
func EndArray(dst []byte) []byte { return end(dst, ']') }

func end(dst []byte, bracket byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = bracket
		return dst
	}
	return append(dst, bracket)
}
