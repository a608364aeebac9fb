package httpapi

import (
	"bytes"

	"github.com/gyrohq/gyro/server/api"
)

// head of a request that a Listener may answer. The slices are parts of what was
// read.
type head struct {
	method api.Method
	// size of the head itself, with the empty line, and of the body; bytes.
	size, body int
	// key and authorization are the values of the fields X-API-Key and
	// Authorization.
	key, authorization []byte
	hosts              int
	hasBody            bool
}

// verdict on what was read of a request.
type verdict int

const (
	verdictIncomplete verdict = iota
	verdictComplete
	// verdictForeign: net/http is to serve the request, or to say what is wrong with
	// it.
	verdictForeign
)

const (
	// maxHead and maxBody bound the requests that a Listener answers; bytes. Larger
	// ones are net/http's.
	maxHead = 8 << 10
	maxBody = 64 << 10
)

// parse reads a head. It takes nothing but what the usual clients send: what is in
// any way odd is foreign, so that there is one judge of it.
func (h *head) parse(data []byte, methods map[string]api.Method) verdict {
	const begin, end = "POST ", " HTTP/1.1"
	if n := min(len(data), len(begin)); string(data[:n]) != begin[:n] {
		return verdictForeign
	}
	line, rest, ok := cutLine(data)
	if !ok {
		return tooLong(data)
	}
	path, ok := bytes.CutSuffix(line[min(len(begin), len(line)):], []byte(end))
	if !ok {
		return verdictForeign
	}
	method, ok := methods[string(path)]
	if !ok {
		return verdictForeign
	}
	*h = head{method: method}
	for {
		if line, rest, ok = cutLine(rest); !ok {
			return tooLong(data)
		}
		if len(line) == 0 {
			break
		}
		if !h.field(line) {
			return verdictForeign
		}
	}
	h.size = len(data) - len(rest)
	if h.hosts != 1 || !h.hasBody || h.size > maxHead {
		return verdictForeign
	}
	return verdictComplete
}

func tooLong(data []byte) verdict {
	if len(data) > maxHead {
		return verdictForeign
	}
	return verdictIncomplete
}

// cutLine cuts a line off. One that does not end with CR LF comes with what cannot
// be in a line, and so is foreign.
func cutLine(data []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return nil, nil, false
	}
	if i == 0 || data[i-1] != '\r' {
		return data[:i+1], data[i+1:], true
	}
	return data[:i-1], data[i+1:], true
}

// field takes a field; false if it is net/http's business.
func (h *head) field(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 || !all(name, &tokenBytes) || !all(value, &textBytes) {
		return false
	}
	value = bytes.Trim(value, " \t")
	switch len(name) {
	case len("Host"):
		if is(name, "host") {
			h.hosts++
			return len(value) > 0 && all(value, &hostBytes)
		}
	case len("X-API-Key"):
		if is(name, "x-api-key") {
			return once(&h.key, value)
		}
	case len("Authorization"):
		if is(name, "authorization") {
			return once(&h.authorization, value)
		}
	case len("Connection"):
		return !is(name, "connection") || is(value, "keep-alive")
	case len("Content-Length"):
		if is(name, "content-length") {
			return h.length(value)
		}
	case len("TE"), len("Expect"), len("Upgrade"), len("Transfer-Encoding"), len("X-Centrifugo-Error-Mode"):
		return !is(name, "te") && !is(name, "expect") && !is(name, "upgrade") && !is(name, "trailer") &&
			!is(name, "transfer-encoding") && !is(name, "x-gyro-error-mode") && !is(name, "x-centrifugo-error-mode")
	}
	return true
}

func once(field *[]byte, value []byte) bool {
	if *field != nil || len(value) == 0 {
		return false
	}
	*field = value
	return true
}

// length reads the size of the body.
func (h *head) length(value []byte) bool {
	if h.hasBody || len(value) == 0 || len(value) > 6 {
		return false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
		h.body = 10*h.body + int(c-'0')
	}
	h.hasBody = true
	return h.body <= maxBody
}

// is compares without regard to ASCII case; want is in lower case.
func is(s []byte, want string) bool {
	if len(s) != len(want) {
		return false
	}
	for i := range s {
		if c := s[i]; c != want[i] && (c < 'A' || c > 'Z' || c|0x20 != want[i]) {
			return false
		}
	}
	return true
}

// What names of fields, values, and hosts may consist of here.
var tokenBytes, textBytes, hostBytes = func() (token, text, host [256]bool) {
	for c := range 256 {
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		token[c] = alnum || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
		text[c] = c >= ' ' && c < 0x7F || c == '\t'
		host[c] = alnum || bytes.IndexByte([]byte("-._:[]"), byte(c)) >= 0
	}
	return token, text, host
}()

func all(s []byte, in *[256]bool) bool {
	for _, c := range s {
		if !in[c] {
			return false
		}
	}
	return true
}
