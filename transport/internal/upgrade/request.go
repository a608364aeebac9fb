package upgrade

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// maxFields is how many fields a head may have for a loop to answer it. Browsers
// send some fifteen.
const maxFields = 64

// Request is a request that a loop has read: a GET of HTTP/1.1 without a body that asks
// for another protocol, and is valid beyond doubt. It is good until the call ends
// that it was given to; its strings are parts of one, which is whoever's keeps them.
//
// It takes the place of http.Request, the making of which was a third of what a loop
// did for a new connection, and half of the garbage that it left.
type Request struct {
	// Path and Query of the target, as they were sent, and the field Host.
	Path, Query, Host string

	target string
	head   string
	fields []field
	values []string // what Values returned
}

type field struct{ name, value string }

// parse reads a head, to its empty line. It reports false for what is net/http's: what
// is not a request as described or in any way odd. The server of net/http accepts
// all that parse does, and understands the same.
func (q *Request) parse(head, protocol string) bool {
	q.reset()
	line, rest := cutLine(head)
	if !q.parseLine(line) || !q.parseFields(rest) {
		return false
	}
	q.head = head
	return q.Host != "" && HasToken(q, "Upgrade", protocol) && !HasToken(q, "Connection", "close")
}

// reset lets all strings go, and keeps the room for others.
func (q *Request) reset() {
	clear(q.fields)
	clear(q.values)
	*q = Request{fields: q.fields[:0], values: q.values[:0]}
}

// cutLine cuts off the first line, which ends as net/http lets it.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

func (q *Request) parseLine(line string) (ok bool) {
	if q.target, ok = strings.CutPrefix(line, "GET "); !ok {
		return false
	}
	if q.target, ok = strings.CutSuffix(q.target, " HTTP/1.1"); !ok || !all(q.target, inTarget) {
		return false
	}
	q.Path, q.Query, _ = strings.Cut(q.target, "?")
	return true
}

// parseFields reads the fields, and reports whether they are as the usual client
// writes them.
func (q *Request) parseFields(rest string) bool {
	for {
		var line string
		line, rest = cutLine(rest)
		if line == "" {
			return true
		}
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || !all(name, inToken) || !all(value, inValue) || len(q.fields) == maxFields {
			return false
		}
		value = strings.Trim(value, " \t")
		switch f := (field{name, value}); {
		case f.is("Host"):
			if value == "" || q.Host != "" || !all(value, inHost) {
				return false
			}
			q.Host = value
		case f.is("Content-Length"), f.is("Transfer-Encoding"), f.is("Trailer"), f.is("Expect"):
			return false // there is more to it
		default:
			q.fields = append(q.fields, f)
		}
	}
}

// is reports whether a field has a name, which is in ASCII.
func (f *field) is(name string) bool {
	return len(f.name) == len(name) && strings.EqualFold(f.name, name)
}

// Get returns the value of the first field of that name, as http.Header does; the
// case of letters does not matter.
func (q *Request) Get(name string) string {
	for i := range q.fields {
		if f := &q.fields[i]; f.is(name) {
			return f.value
		}
	}
	return ""
}

// Values returns the values of all fields of that name. They are good until the next
// call.
func (q *Request) Values(name string) []string {
	q.values = q.values[:0]
	for i := range q.fields {
		if f := &q.fields[i]; f.is(name) {
			q.values = append(q.values, f.value)
		}
	}
	return q.values
}

// Header returns a function that makes an http.Header of the fields, at any time.
// Hardly anybody asks for it.
func (q *Request) Header() func() http.Header {
	head := q.head
	return func() http.Header {
		var q Request
		_, rest := cutLine(head)
		q.parseFields(rest)
		return q.header()
	}
}

// header makes what net/http makes of the fields.
func (q *Request) header() http.Header {
	h := make(http.Header, len(q.fields))
	values := make([]string, len(q.fields)) // of all fields: one allocation
	for i, f := range q.fields {
		name := textproto.CanonicalMIMEHeaderKey(f.name)
		if list, ok := h[name]; ok {
			h[name] = append(list, f.value)
			continue
		}
		values[i] = f.value
		h[name] = values[i : i+1 : i+1]
	}
	// RFC 9111 section 5.4: it means the same to HTTP/1.0.
	if p := h["Pragma"]; len(p) > 0 && p[0] == "no-cache" && h["Cache-Control"] == nil {
		h["Cache-Control"] = []string{"no-cache"}
	}
	return h
}

// http is the request for handlers of net/http. Its path is plain.
func (q *Request) http(ctx context.Context, remote string) *http.Request {
	r := &http.Request{
		Method: http.MethodGet,
		URL:    &url.URL{Path: q.Path, RawQuery: q.Query, ForceQuery: q.Query == "" && strings.HasSuffix(q.target, "?")},
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: q.header(), Body: http.NoBody, Host: q.Host, RequestURI: q.target, RemoteAddr: remote,
	}
	return r.WithContext(ctx)
}

// plainPath reports whether net/http understands a path of a target literally.
func plainPath(path string) bool {
	u, err := url.ParseRequestURI(path)
	return err == nil && *u == url.URL{Path: path} && path[0] == '/'
}

// Fields are those of a request: http.Header or Request.
type Fields interface {
	Get(name string) string
	Values(name string) []string
}

// HasToken reports whether a field that is a list holds a token.
func HasToken(fields Fields, name, token string) bool {
	for _, v := range fields.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.Trim(t, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// The places where a byte may be, RFC 9110 section 5.
const (
	inToken = 1 << iota
	inValue
	inHost
	inTarget
)

// places tells where bytes may be, so that a look at each is all that it takes.
var places = func() (table [256]uint8) {
	for c := range 256 {
		b := byte(c)
		alnum := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9'
		if alnum || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0 {
			table[c] |= inToken
		}
		if b >= ' ' && b != 0x7F || b == '\t' {
			table[c] |= inValue
		}
		if alnum || strings.IndexByte("-._:[]", b) >= 0 {
			table[c] |= inHost
		}
		if b > ' ' && b != 0x7F {
			table[c] |= inTarget
		}
	}
	return table
}()

// all reports whether all bytes of s may be in a place.
func all(s string, place uint8) bool {
	for i := range len(s) {
		if places[s[i]]&place == 0 {
			return false
		}
	}
	return true
}
