package jsonx

import (
	"unicode/utf16"
	"unicode/utf8"
)

// Valid reports whether data is one JSON text in UTF-8, white space around it
// included. Unlike encoding/json it refuses invalid UTF-8 in strings.
func Valid(data []byte) bool {
	d := Decoder{data: data}
	d.Skip()
	return d.End() == nil
}

// Skip reads any value and checks its grammar.
func (d *Decoder) Skip() { d.skipValue(0) }

func (d *Decoder) skipValue(depth int) {
	switch c := d.peek(); c {
	case '"':
		d.skipString()
	case '{':
		d.skipObject(depth + 1)
	case '[':
		d.skipArray(depth + 1)
	case 't':
		d.literal("true")
	case 'f':
		d.literal("false")
	case 'n':
		d.literal("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			d.skipNumber()
			return
		}
		d.fail("value expected")
	}
}

func (d *Decoder) tooDeep(depth int) bool {
	if depth > MaxDepth {
		d.fail("nested too deeply")
		return true
	}
	return false
}

func (d *Decoder) skipObject(depth int) {
	if d.tooDeep(depth) {
		return
	}
	d.pos++ // '{'
	if d.peek() == '}' {
		d.pos++
		return
	}
	for {
		if d.peek() != '"' {
			d.fail("member name expected")
			return
		}
		d.skipString()
		if d.peek() != ':' {
			d.fail("':' expected")
			return
		}
		d.pos++
		d.skipValue(depth)
		if !d.next('}', "',' or '}' expected") {
			return
		}
	}
}

func (d *Decoder) skipArray(depth int) {
	if d.tooDeep(depth) {
		return
	}
	d.pos++ // '['
	if d.peek() == ']' {
		d.pos++
		return
	}
	for {
		d.skipValue(depth)
		if !d.next(']', "',' or ']' expected") {
			return
		}
	}
}

func (d *Decoder) digits() bool {
	start := d.pos
	for d.pos < len(d.data) && d.data[d.pos] >= '0' && d.data[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > start
}

// at reports whether the byte at the cursor is a or b.
func (d *Decoder) at(a, b byte) bool {
	return d.pos < len(d.data) && (d.data[d.pos] == a || d.data[d.pos] == b)
}

func (d *Decoder) skipNumber() {
	if d.at('-', '-') {
		d.pos++
	}
	if d.at('0', '0') {
		d.pos++
	} else if !d.digits() {
		d.fail("digit expected")
		return
	}
	if d.at('.', '.') {
		d.pos++
		if !d.digits() {
			d.fail("digit expected")
			return
		}
	}
	if d.at('e', 'E') {
		d.pos++
		if d.at('+', '-') {
			d.pos++
		}
		if !d.digits() {
			d.fail("digit expected")
		}
	}
}

// plain marks the bytes that need no attention inside of a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// skipString consumes the string at the cursor, quotes included, and reports
// whether it has escapes.
func (d *Decoder) skipString() (escaped bool) {
	data, i := d.data, d.pos+1
	for {
		for i < len(data) && plain[data[i]] {
			i++
		}
		if i >= len(data) {
			d.pos = i
			d.fail("unexpected end in string")
			return escaped
		}
		switch c := data[i]; {
		case c == '"':
			d.pos = i + 1
			return escaped
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				d.pos = i
				d.fail("invalid escape in string")
				return escaped
			}
			escaped = true
			i += n
		case c < 0x20:
			d.pos = i
			d.fail("control character in string")
			return escaped
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				d.pos = i
				d.fail("invalid UTF-8 in string")
				return escaped
			}
			i += n
		}
	}
}

// escapeLen returns the length of the escape sequence that b begins with; 0 if
// it is malformed.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape resolves the escapes of s, whose grammar skipString has checked. A
// surrogate without its other half becomes U+FFFD.
func (d *Decoder) unescape(s []byte) []byte {
	if d.err != nil {
		return nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		c := s[i+1]
		i += 2
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(s[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				low, n := lowSurrogate(s[i:])
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += n
				}
			}
			out = utf8.AppendRune(out, r)
		default: // '"', '\\', '/'
			out = append(out, c)
		}
	}
	return out
}

func lowSurrogate(s []byte) (r rune, n int) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, 0
	}
	r, _ = hex4(s[2:])
	return r, 6
}
