// Package jsonwire reads and writes the JSON form of messages, for generated code, without reflection.
package jsonwire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of objects and arrays. Common JSON readers accept more (Python's stops near 1000), so a
// publisher cannot break its subscribers by nesting.
const MaxDepth = 512

// Valid reports whether p is exactly one JSON value in valid UTF-8, nested at most MaxDepth deep, perhaps with blanks
// around.
func Valid(p []byte) bool {
	ok, _ := Check(p)
	return ok
}

// Check is Valid; lines: there is LF or CR between the tokens.
func Check(p []byte) (ok, lines bool) {
	if len(p) > 0 && skipSimple(p, 0) == len(p) {
		return true, false
	}
	var t traits
	end := skipValue(p, 0, MaxDepth, &t)
	if end < 0 || end < len(p) && skipBlanks(p, end, &t) < len(p) {
		return false, false
	}
	return t.bytes&highs == 0 || utf8.Valid(p), t.lines
}

// skipSimple returns the index after an object at p[i] of the usual shape: one level of strings, numbers and words, no
// blanks, escapes or characters beyond ASCII; else -1. It keeps no state, so it is twice as fast as skipValue.
func skipSimple(p []byte, i int) int {
	last := len(p) - 1
	if last < 7 || p[i] != '{' || p[last]-'0' <= 9 {
		return -1
	}
	for i++; ; i++ {
		if i >= last || p[i] != '"' {
			return -1
		}
		if i = simpleString(p, i+1); i+1 >= last || p[i] != '"' || p[i+1] != ':' {
			return -1
		}
		if i += 2; p[i] == '"' {
			if i = simpleString(p, i+1); i >= last || p[i] != '"' {
				return -1
			}
			i++
		} else if start := i; p[i]-'1' < 9 {
			for p[i]-'0' <= 9 { // the last byte of p is no digit
				i++
			}
			if p[i] != ',' && p[i] != '}' {
				if i = skipNumber(p, start); i < 0 || i > last {
					return -1
				}
			}
		} else if i = skipWordOrNumber(p, i); i < 0 || i > last {
			return -1
		}
		if p[i] == '}' {
			return i + 1
		}
		if p[i] != ',' {
			return -1
		}
	}
}

// simpleString returns the index, from i on, of the first byte that is not plain ASCII, at most that of the last byte.
func simpleString(p []byte, i int) int {
	last := len(p) - 8
	for i <= last {
		x := load(p, i)
		if m := (special(x) | x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
		for i <= len(p)-32 {
			block := p[i : i+32 : i+32]
			x0, x1, x2, x3 := load(block, 0), load(block, 8), load(block, 16), load(block, 24)
			if (special(x0)|special(x1)|special(x2)|special(x3)|x0|x1|x2|x3)&highs != 0 {
				break
			}
			i += 32
		}
	}
	// The remaining bytes, and zeroes after them, which stop the scan.
	x := load(p, last) >> (8 * uint(i-last) & 63)
	return min(i+bits.TrailingZeros64((special(x)|x)&highs)/8, len(p)-1)
}

type traits struct {
	lines   bool   // LF or CR between tokens
	escapes bool   // escapes in strings
	deep    bool   // the depth was exceeded
	bytes   uint64 // all bytes of strings ORed, perhaps with bytes that follow them
}

// The skip functions return the index after a text at p[i]; if it is malformed, ^index of the wrong byte, which is
// negative. They do not check UTF-8: callers check the whole text at once, or not at all if it is plain ASCII.

// skipValue skips a value with at most depth open objects and arrays. It keeps their kinds as bits, and does not
// recurse.
func skipValue(p []byte, i, depth int, t *traits) int {
	var (
		open    int    // number of open containers
		objects uint64 // their kinds, the innermost in bit 0, set for objects
		outer   [MaxDepth / 64]uint64
	)
	for {
		i = skipBlanks(p, i, t)
		if objects&1 != 0 {
			// A member begins with its key.
			if i >= len(p) || p[i] != '"' {
				return ^i
			}
			if i = skipString(p, i, t); i < 0 {
				return i
			}
			if i = skipBlanks(p, i, t); i >= len(p) || p[i] != ':' {
				return ^i
			}
			i = skipBlanks(p, i+1, t)
		}
		if i >= len(p) {
			return ^i
		}
		if c := p[i]; c == '"' {
			i = skipString(p, i, t)
		} else if c != '{' && c != '[' {
			i = skipWordOrNumber(p, i)
		} else {
			i = skipBlanks(p, i+1, t)
			if open == depth || i >= len(p) {
				t.deep = open == depth
				return ^i
			}
			if p[i] != c+2 { // not the closing bracket
				if open%64 == 0 {
					outer[open/64] = objects
				}
				open++
				objects = objects<<1 | uint64(c>>5&1) // 1 for an object
				continue
			}
			i++
		}
		if i < 0 {
			return i
		}
		// After a value: close objects and arrays until one has another value.
		for {
			if open == 0 {
				return i
			}
			i = skipBlanks(p, i, t)
			if i >= len(p) {
				return ^i
			}
			c := p[i]
			i++
			if c == ',' {
				break
			}
			if c != ']'+('}'-']')*byte(objects&1) {
				return ^(i - 1)
			}
			open--
			objects >>= 1
			if open%64 == 0 {
				objects = outer[open/64]
			}
		}
	}
}

func skipWordOrNumber(p []byte, i int) int {
	switch p[i] {
	case 't':
		return skipWord(p, i, "true")
	case 'f':
		return skipWord(p, i, "false")
	case 'n':
		return skipWord(p, i, "null")
	}
	return skipNumber(p, i)
}

// skipBlanks is inlined.
func skipBlanks(p []byte, i int, t *traits) int {
	if i < len(p) && p[i] > ' ' {
		return i
	}
	return skipSomeBlanks(p, i, t)
}

func skipSomeBlanks(p []byte, i int, t *traits) int {
	for ; i < len(p); i++ {
		switch p[i] {
		case ' ', '\t':
		case '\n', '\r':
			t.lines = true
		default:
			return i
		}
	}
	return i
}

func skipWord(p []byte, i int, word string) int {
	if end := i + len(word); end <= len(p) && string(p[i:end]) == word {
		return end
	}
	return ^i
}

func skipNumber(p []byte, i int) int {
	if i < len(p) && p[i] == '-' {
		i++
	}
	if i < len(p) && p[i] == '0' {
		i++
	} else {
		start := i
		for i < len(p) && p[i]-'0' <= 9 {
			i++
		}
		if i == start {
			return ^i
		}
	}
	if i < len(p) && (p[i] == '.' || p[i]|0x20 == 'e') {
		return skipFraction(p, i)
	}
	return i
}

func skipFraction(p []byte, i int) int {
	if p[i] == '.' {
		if i = skipDigits(p, i+1); i < 0 {
			return i
		}
	}
	if i < len(p) && p[i]|0x20 == 'e' {
		i++
		if i < len(p) && (p[i] == '+' || p[i] == '-') {
			i++
		}
		return skipDigits(p, i)
	}
	return i
}

// skipDigits skips one or more digits.
func skipDigits(p []byte, i int) int {
	start := i
	for i < len(p) && p[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return ^i
	}
	return i
}

func skipString(p []byte, i int, t *traits) int {
	i++
	var seen uint64
	for i <= len(p)-8 {
		x := load(p, i)
		seen |= x
		if m := special(x) &^ x & highs; m != 0 {
			i += bits.TrailingZeros64(m) / 8
			t.bytes |= seen
			if p[i] == '"' {
				return i + 1
			}
			return skipRest(p, i, t)
		}
		i += 8
		// Most long strings are plain ASCII, which goes in larger blocks.
		for i <= len(p)-32 {
			block := p[i : i+32 : i+32]
			x0, x1, x2, x3 := load(block, 0), load(block, 8), load(block, 16), load(block, 24)
			if (special(x0)|special(x1)|special(x2)|special(x3)|x0|x1|x2|x3)&highs != 0 {
				break
			}
			i += 32
		}
	}
	t.bytes |= seen
	return skipRest(p, i, t)
}

// skipRest skips the rest of a string that has escapes, or ends near the end of the text.
func skipRest(p []byte, i int, t *traits) int {
	for {
		i = skipPlain(p, i, t)
		if i >= len(p) {
			return ^i
		}
		switch p[i] {
		case '"':
			return i + 1
		case '\\':
			t.escapes = true
			if i = skipEscape(p, i); i < 0 {
				return i
			}
		default: // a control character
			return ^i
		}
	}
}

func skipEscape(p []byte, i int) int {
	if i+1 >= len(p) {
		return ^len(p)
	}
	switch p[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if _, ok := hex4(p[i+2:]); ok {
			return i + 6
		}
	}
	return ^i
}

// skipPlain skips to the next quote, backslash or control character, or to the end.
func skipPlain(p []byte, i int, t *traits) int {
	seen := t.bytes
	for i <= len(p)-8 {
		x := load(p, i)
		seen |= x
		if m := special(x) &^ x & highs; m != 0 {
			t.bytes = seen
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	if len(p) >= 8 && i < len(p) {
		// The last eight bytes without those before i, and zeroes after them, which stop the scan.
		x := load(p, len(p)-8) >> (64 - 8*(len(p)-i))
		t.bytes = seen | x
		return i + bits.TrailingZeros64(special(x)&^x&highs)/8
	}
	for i < len(p) && p[i] >= ' ' && p[i] != '"' && p[i] != '\\' {
		seen |= uint64(p[i])
		i++
	}
	t.bytes = seen
	return i
}

// load returns eight bytes from p[i] on. The third index spares a guard against an empty rest.
func load(p []byte, i int) uint64 { return binary.LittleEndian.Uint64(p[i : i+8 : i+8]) }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special sets the high bit of each byte of x that ends a run of plain characters (quote, backslash, control
// characters), and of some that are not ASCII. Only the lowest high bit counts: the subtractions borrow from higher
// ones.
func special(x uint64) uint64 {
	// Flipping bit 1 moves the quote (0x22) next to the control characters, and the blank (0x20) away from there, so one
	// comparison serves both.
	quoteOrControl := (x ^ 0x02*ones) - 0x21*ones
	backslash := (x ^ '\\'*ones) - ones
	return quoteOrControl | backslash
}

func hex4(p []byte) (r rune, ok bool) {
	if len(p) < 4 {
		return 0, false
	}
	for _, c := range p[:4] {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
