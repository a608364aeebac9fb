package jsonx

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// ErrNotJSON is the error of Writer.Raw when the bytes are not JSON.
var ErrNotJSON = errors.New("stored bytes are not valid JSON")

// Writer appends JSON to Buf. It puts the commas; Err is the first error.
type Writer struct {
	Buf []byte
	Err error
}

// Begin opens an object with '{' or an array with '['.
func (w *Writer) Begin(open byte) { w.Buf = append(w.Buf, open) }

// End closes it with '}' or ']'.
func (w *Writer) End(closing byte) { w.Buf = append(w.Buf, closing) }

// Element must be called before each element of an array.
func (w *Writer) Element() {
	// No value ends with an opening bracket, so the last byte tells whether this
	// is the first one.
	if n := len(w.Buf); n > 0 && w.Buf[n-1] != '[' && w.Buf[n-1] != '{' {
		w.Buf = append(w.Buf, ',')
	}
}

// Name begins a member whose name needs no escaping.
func (w *Writer) Name(name string) {
	w.Element()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, name...)
	w.Buf = append(w.Buf, '"', ':')
}

// Key begins a member of any name.
func (w *Writer) Key(name string) {
	w.Element()
	w.String(name)
	w.Buf = append(w.Buf, ':')
}

// Uint writes a number.
func (w *Writer) Uint(n uint64) { w.Buf = strconv.AppendUint(w.Buf, n, 10) }

// Int writes a number.
func (w *Writer) Int(n int64) { w.Buf = strconv.AppendInt(w.Buf, n, 10) }

// StringMember, UintMember, IntMember, TrueMember, RawMember and MapMember write
// a member unless its value is zero.
func (w *Writer) StringMember(name, v string) {
	if v != "" {
		w.Name(name)
		w.String(v)
	}
}

func (w *Writer) UintMember(name string, v uint64) {
	if v != 0 {
		w.Name(name)
		w.Uint(v)
	}
}

func (w *Writer) IntMember(name string, v int64) {
	if v != 0 {
		w.Name(name)
		w.Int(v)
	}
}

func (w *Writer) TrueMember(name string, v bool) {
	if v {
		w.Name(name)
		w.Buf = append(w.Buf, "true"...)
	}
}

func (w *Writer) RawMember(name string, v []byte) {
	if len(v) > 0 {
		w.Name(name)
		w.Raw(v)
	}
}

func (w *Writer) MapMember(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.Name(name)
	w.Begin('{')
	for k, v := range m {
		w.Key(k)
		w.String(v)
	}
	w.End('}')
}

// Raw embeds bytes that must be JSON, without the white space between tokens:
// clients of the legacy endpoint read one reply per line.
func (w *Writer) Raw(v []byte) {
	if !Valid(v) {
		if w.Err == nil {
			w.Err = ErrNotJSON
		}
		w.Buf = append(w.Buf, "null"...)
		return
	}
	if !bytes.ContainsAny(v, " \t\r\n") {
		w.Buf = append(w.Buf, v...)
		return
	}
	inString := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			inString = !inString
		case c == '\\':
			// Only inside of a string: the next byte is taken as it is.
			w.Buf = append(w.Buf, c)
			i++
		case !inString && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			continue
		}
		w.Buf = append(w.Buf, v[i])
	}
}

const hexDigits = "0123456789abcdef"

// String writes a string. Invalid UTF-8 becomes U+FFFD.
func (w *Writer) String(s string) {
	b := append(w.Buf, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, `\ufffd`...)
				start = i + 1
			}
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	w.Buf = append(b, '"')
}
