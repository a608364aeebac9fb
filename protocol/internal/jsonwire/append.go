package jsonwire

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// ErrNotJSON tells that a payload cannot be embedded in a JSON message, because it
// is not exactly one JSON value in valid UTF-8, or is nested too deeply.
var ErrNotJSON = errors.New("payload is not valid JSON")

// AppendRaw appends a payload as it is, except that LF and CR, which valid JSON
// has only between tokens, are left out: they would break the framing.
func AppendRaw(dst, payload []byte) ([]byte, error) {
	ok, lines := check(payload)
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
	// The bytes are only read, and not kept.
	return AppendBytes(dst, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// AppendBytes appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD;
// anything else comes back as it was.
func AppendBytes(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0 // of what is not appended yet
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

// asciiEnd returns where, from i on, the ASCII characters end that a JSON string
// holds as they are.
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

// AppendUint appends a number. It is strconv.AppendUint for numbers that are short
// most of the time: offsets, IDs, durations.
func AppendUint(dst []byte, n uint64) []byte {
	var digits [20]byte
	i := len(digits)
	for n >= 100 {
		q := n / 100
		i -= 2
		copy(digits[i:], pairs[2*(n-100*q):][:2])
		n = q
	}
	if n >= 10 {
		i -= 2
		copy(digits[i:], pairs[2*n:][:2])
	} else {
		i--
		digits[i] = byte('0' + n)
	}
	return append(dst, digits[i:]...)
}

// pairs of digits from 00 to 99.
const pairs = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"

// EndObject closes an object whose members were each appended with a comma behind.
func EndObject(dst []byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = '}'
		return dst
	}
	return append(dst, '}')
}

// EndArray closes an array whose elements were each appended with a comma behind.
func EndArray(dst []byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = ']'
		return dst
	}
	return append(dst, ']')
}
