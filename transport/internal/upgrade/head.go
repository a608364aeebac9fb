package upgrade

import (
	"bytes"
	"net/http"
	"strings"
)

// verdict on the first bytes of a connection.
type verdict int

const (
	verdictIncomplete verdict = iota // a handshake so far
	verdictComplete                  // perhaps a handshake; its head is there
	verdictForeign                   // none, or net/http has to tell the client what is wrong
)

// headSlack is how much net/http reads beyond Server.MaxHeaderBytes.
const headSlack = 4096

// judge looks at data, in the first scanned bytes of which the head does not end.
// end is where it ends.
func (l *listener) judge(data []byte, scanned int) (end int, v verdict) {
	if !l.wanted(data) {
		return 0, verdictForeign
	}
	end = headEnd(data, scanned)
	switch {
	case end > l.maxHead+headSlack, end < 0 && len(data) > l.maxHead+headSlack:
		return 0, verdictForeign
	case end < 0:
		return 0, verdictIncomplete
	}
	return end, verdictComplete
}

// wanted reports whether data is, or can become, a request for one of the paths.
func (l *listener) wanted(data []byte) bool {
	for _, p := range l.prefixes {
		n := min(len(data), len(p))
		if string(data[:n]) != p[:n] {
			continue
		}
		if n == len(data) || data[n] == ' ' || data[n] == '?' {
			return true
		}
	}
	return false
}

// headEnd returns where the empty line ends, -1 if there is none. Like net/http it
// takes line feeds alone.
func headEnd(data []byte, scanned int) int {
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

// plainFields reports whether the fields of a head are as the usual client writes
// them. The server of net/http checks more than http.ReadRequest does; what is in
// any way odd is for it to judge.
func plainFields(head []byte) bool {
	hosts := 0
	_, fields, _ := bytes.Cut(head, []byte("\n"))
	for len(fields) > 0 {
		var line []byte
		line, fields, _ = bytes.Cut(fields, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			break
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found || len(name) == 0 || !all(name, isToken) || !all(value, isText) {
			return false
		}
		if len(name) == 4 && strings.EqualFold(string(name), "host") {
			hosts++
			if !all(bytes.TrimSpace(value), isHost) {
				return false
			}
		}
	}
	return hosts == 1
}

func all(s []byte, is func(c byte) bool) bool {
	for _, c := range s {
		if !is(c) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

func isToken(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 }

func isText(c byte) bool { return c >= ' ' && c != 0x7F || c == '\t' }

func isHost(c byte) bool { return isAlnum(c) || strings.IndexByte("-._:[]", c) >= 0 }

// isUpgrade reports whether a loop can answer r: the connection is to become one of
// protocol, and there is nothing in the way.
func isUpgrade(r *http.Request, protocol string) bool {
	return r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.Host != "" &&
		HasToken(r.Header, "Upgrade", protocol) && !r.Close &&
		r.Body == http.NoBody && len(r.TransferEncoding) == 0 && len(r.Header["Content-Length"]) == 0 &&
		len(r.Header["Expect"]) == 0
}

// HasToken reports whether a field that is a list holds a token.
func HasToken(h http.Header, field, token string) bool {
	for _, v := range h.Values(field) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}
