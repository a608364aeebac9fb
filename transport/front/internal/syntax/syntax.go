// Package syntax has the rules of RFC 9110 and 9112 for heads of requests that are valid beyond doubt.
package syntax

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// CutLine cuts off the first line, which must end with CR LF.
func CutLine(s string) (line, rest string, ok bool) {
	i := strings.IndexByte(s, '\n')
	if i < 1 || s[i-1] != '\r' {
		return "", "", false
	}
	return s[:i-1], s[i+1:], true
}

// HeadEnd returns where the empty line ends, -1 if there is none; it is not in the first scanned bytes. HeadEnd also
// finds lines that end with LF alone, which CutLine rejects: net/http must get them as soon as they are complete.
func HeadEnd(data []byte, scanned int) int {
	for i := max(scanned-2, 0); i < len(data); {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			return -1
		}
		i += n + 1
		switch rest := data[i:]; {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 2
		}
	}
	return -1
}

// Length returns the bytes of a body; -1: the value is left to net/http.
func Length(value string) int {
	n := 0
	if value == "" || len(value) > 6 {
		return -1
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// Closes reports whether a field Connection may ask for the end of the connection.
func Closes(value string) bool {
	const token = "close"
	for i := 0; i+len(token) <= len(value); i++ {
		if strings.EqualFold(value[i:i+len(token)], token) {
			return true
		}
	}
	return false
}

// Classes of bytes, by the part of a head where they may stand (RFC 9110 section 5).
const (
	InToken = 1 << iota
	InValue
	InHost
	InTarget
)

var classes = func() (table [256]uint8) {
	for c := range 256 {
		b := byte(c)
		alnum := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
		if alnum || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0 {
			table[c] |= InToken
		}
		if b >= ' ' && b != 0x7F || b == '\t' {
			table[c] |= InValue
		}
		if alnum || strings.IndexByte("-._:[]", b) >= 0 {
			table[c] |= InHost
		}
		if b > ' ' && b != 0x7F {
			table[c] |= InTarget
		}
	}
	return table
}()

// All reports whether all bytes of s are of a class.
func All(s string, class uint8) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}

// Field takes a field apart: its name is line[:colon], its value line[from:to].
func Field(line string) (colon, from, to int, ok bool) {
	colon = strings.IndexByte(line, ':')
	if colon < 1 || !All(line[:colon], InToken) || !All(line[colon+1:], InValue) {
		return 0, 0, 0, false
	}
	from, to = colon+1, len(line)
	for from < to && (line[from] == ' ' || line[from] == '\t') {
		from++
	}
	for from < to && (line[to-1] == ' ' || line[to-1] == '\t') {
		to--
	}
	return colon, from, to, true
}

// Is reports whether a field has the name want, which is ASCII, in any letter case.
func Is(name, want string) bool {
	return len(name) == len(want) && strings.EqualFold(name, want)
}

// HasToken reports whether the list in a field holds a token, in any letter case.
func HasToken(list, token string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(t, " \t"), token) {
			return true
		}
	}
	return false
}

// Header returns the header that net/http makes of n fields.
func Header(n int, field func(i int) (name, value string)) http.Header {
	h := make(http.Header, n)
	values := make([]string, n) // of all fields: one allocation
	for i := range n {
		name, value := field(i)
		name = textproto.CanonicalMIMEHeaderKey(name)
		if list, ok := h[name]; ok {
			h[name] = append(list, value)
			continue
		}
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	// RFC 9111 section 5.4: Pragma means the same to HTTP/1.0.
	if p := h["Pragma"]; len(p) > 0 && p[0] == "no-cache" && h["Cache-Control"] == nil {
		h["Cache-Control"] = []string{"no-cache"}
	}
	return h
}
