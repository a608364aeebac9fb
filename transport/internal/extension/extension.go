// Package extension negotiates permessage-deflate (RFC 7692), the only extension that the WebSocket transport knows.
package extension

import (
	"errors"
	"slices"
	"strings"
)

var errMalformed = errors.New("malformed Sec-WebSocket-Extensions")

// Extension is one element of Sec-WebSocket-Extensions, RFC 6455 section 9.1.
type Extension struct {
	name   string
	params []param
}

type param struct {
	name  string
	value string // "": there is none
}

// Parse reads the values of all Sec-WebSocket-Extensions fields.
func Parse(fields []string) ([]Extension, error) {
	var list []Extension
	for _, f := range fields {
		for rest := trimSpace(f); rest != ""; {
			if rest[0] == ',' { // empty elements are allowed
				rest = trimSpace(rest[1:])
				continue
			}
			var e Extension
			var err error
			if e, rest, err = parseOne(rest); err != nil {
				return nil, err
			}
			list = append(list, e)
		}
	}
	return list, nil
}

// parseOne reads one element; rest is empty or begins with a comma.
func parseOne(s string) (e Extension, rest string, err error) {
	e.name, s = cutToken(s)
	if e.name == "" {
		return e, "", errMalformed
	}
	for {
		s = trimSpace(s)
		if s == "" || s[0] == ',' {
			return e, s, nil
		}
		if s[0] != ';' {
			return e, "", errMalformed
		}
		var p param
		if p.name, s = cutToken(trimSpace(s[1:])); p.name == "" {
			return e, "", errMalformed
		}
		if s = trimSpace(s); s != "" && s[0] == '=' {
			if p.value, s = cutValue(trimSpace(s[1:])); p.value == "" {
				return e, "", errMalformed
			}
		}
		e.params = append(e.params, p)
	}
}

// cutValue cuts off a token, or a quoted string that holds one; "": neither.
func cutValue(s string) (value, rest string) {
	if s == "" || s[0] != '"' {
		return cutToken(s)
	}
	var b strings.Builder
	for i := 1; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
		if i == len(s) || !isTokenByte(s[i]) {
			return "", ""
		}
		b.WriteByte(s[i])
		if i+1 < len(s) && s[i+1] == '"' {
			return b.String(), s[i+2:]
		}
	}
	return "", ""
}

func cutToken(s string) (token, rest string) {
	n := 0
	for n < len(s) && isTokenByte(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

func isTokenByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func trimSpace(s string) string { return strings.TrimLeft(s, " \t") }

// AcceptDeflate returns the answer to the first offer of permessage-deflate that the server can accept, or "".
func AcceptDeflate(offers []Extension) string {
	for _, o := range offers {
		if o.name != "permessage-deflate" {
			continue
		}
		if answer := answerDeflate(o.params); answer != "" {
			return answer
		}
	}
	return ""
}

// answerDeflate follows RFC 7692 section 7.1. The compressor uses the largest window, so a smaller one for the server is
// not accepted.
func answerDeflate(params []param) string {
	answer := "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for i, p := range params {
		if slices.ContainsFunc(params[:i], func(earlier param) bool { return earlier.name == p.name }) {
			return ""
		}
		valid := false
		switch p.name {
		case "server_no_context_takeover", "client_no_context_takeover":
			valid = p.value == ""
		case "server_max_window_bits":
			valid = p.value == "15"
			answer += "; server_max_window_bits=15"
		case "client_max_window_bits":
			valid = slices.Contains([]string{"", "8", "9", "10", "11", "12", "13", "14", "15"}, p.value)
		}
		if !valid {
			return ""
		}
	}
	return answer
}
