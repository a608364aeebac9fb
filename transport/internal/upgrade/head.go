package upgrade

import "bytes"

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
