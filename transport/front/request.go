package front

import (
	"net/http"
	"strings"
	"time"

	"github.com/gyrohq/gyro/transport/front/internal/syntax"
)

// maxFields is the most fields of a request for a route. Browsers send some fifteen.
const maxFields = 64

// Request is the head of a request that the front or net/http has read, valid until the function that got it returns;
// its strings may be kept. An http.Request instead would take a third of the CPU that a loop spends on a new connection,
// and half of the garbage.
type Request struct {
	Method string
	// Path is decoded if net/http has read the request.
	Path, Query string
	Host        string
	// RemoteAddr of the client, as in http.Request.
	RemoteAddr string
	// HTTP is the major version.
	HTTP uint8
	// Began is for the Gate: when the request entered.
	Began time.Time
	// Sent is for the Gate, when the request leaves: the bytes of the answer's body, -1 if the answer goes on.
	Sent int

	head   string
	length int         // of the body; -1: there is no Content-Length
	digits span        // of the length in head
	fields []field     // of head, without Host and Content-Length
	values []string    // the last result of Values
	header http.Header // of a request that net/http has read; fields is empty then
}

// field has no pointers, so the garbage collector skips fields.
type field struct{ name, value span }

type span struct{ from, to uint32 }

// FromHTTP returns the head of a request that net/http has read.
func FromHTTP(r *http.Request) *Request {
	return &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host,
		RemoteAddr: r.RemoteAddr, HTTP: uint8(r.ProtoMajor), header: r.Header, length: int(r.ContentLength),
	}
}

// ContentLength returns the bytes of the body, -1 if the head does not tell.
func (q *Request) ContentLength() int { return q.length }

// parse reads a head, to its empty line. False: net/http gets the request. It is not HTTP/1.1, has a body of unknown
// length, ends the connection, or is unusual in any way: a line without CR LF, a folded field, a second Host or
// Content-Length. net/http accepts every request that parse accepts, and understands it in the same way.
func (q *Request) parse(head string) bool {
	*q = Request{HTTP: 1, head: head, length: -1, fields: q.fields[:0], values: q.values[:0]}
	line, rest, ok := syntax.CutLine(head)
	if !ok || !q.parseLine(line) {
		return false
	}
	for {
		at := len(head) - len(rest)
		if line, rest, ok = syntax.CutLine(rest); !ok {
			return false
		}
		if line == "" {
			return q.Host != ""
		}
		if !q.parseField(line, at) {
			return false
		}
	}
}

// reset drops all strings, and keeps the slices.
func (q *Request) reset() {
	clear(q.values[:cap(q.values)])
	*q = Request{fields: q.fields[:0], values: q.values[:0]}
}

func (q *Request) parseLine(line string) (ok bool) {
	if line, ok = strings.CutSuffix(line, " HTTP/1.1"); !ok {
		return false
	}
	method, target, ok := strings.Cut(line, " ")
	q.Method = method
	q.Path, q.Query, _ = strings.Cut(target, "?")
	return ok && syntax.All(method, syntax.InToken) && syntax.All(target, syntax.InTarget)
}

func (q *Request) parseField(line string, at int) bool {
	colon, from, to, ok := syntax.Field(line)
	if !ok || len(q.fields) == maxFields {
		return false
	}
	name, value := line[:colon], line[from:to]
	switch len(name) {
	case len("Host"):
		if syntax.Is(name, "Host") {
			first := q.Host == ""
			q.Host = value
			return first && value != "" && syntax.All(value, syntax.InHost)
		}
	case len("Content-Length"):
		if syntax.Is(name, "Content-Length") {
			first := q.length < 0
			q.length, q.digits = syntax.Length(value), span{uint32(at + from), uint32(at + to)}
			return first && q.length >= 0
		}
	case len("Expect"), len("Trailer"), len("Connection"), len("Transfer-Encoding"):
		if syntax.Is(name, "Expect") || syntax.Is(name, "Trailer") || syntax.Is(name, "Transfer-Encoding") || syntax.Is(name, "Connection") && syntax.Closes(value) {
			return false
		}
	}
	q.fields = append(q.fields, field{span{uint32(at), uint32(at + colon)}, span{uint32(at + from), uint32(at + to)}})
	return true
}

func (q *Request) end(head int) int { return head + max(q.length, 0) }

func (q *Request) text(s span) string { return q.head[s.from:s.to] }

func (q *Request) find(name string, i int) int {
	for ; i < len(q.fields); i++ {
		if syntax.Is(q.text(q.fields[i].name), name) {
			return i
		}
	}
	return -1
}

// again reports whether data begins with the head of q, but for the digits of the length, which q takes over. Clients
// that keep their connections send such heads.
func (q *Request) again(data []byte) bool {
	n, from, to := len(q.head), q.digits.from, q.digits.to
	if n == 0 || len(data) < n || string(data[:from]) != q.head[:from] || string(data[to:n]) != q.head[to:] {
		return false
	}
	if from < to {
		q.length = syntax.Length(string(data[from:to]))
	}
	return q.length >= 0
}

// Get returns the value of the first field of that name, in any letter case. It does not find Host and Content-Length.
func (q *Request) Get(name string) string {
	if q.header != nil {
		return q.header.Get(name)
	}
	if i := q.find(name, 0); i >= 0 {
		return q.text(q.fields[i].value)
	}
	return ""
}

// Values returns the values of all fields of that name, valid until the next call.
func (q *Request) Values(name string) []string {
	if q.header != nil {
		return q.header.Values(name)
	}
	q.values = q.values[:0]
	for i := q.find(name, 0); i >= 0; i = q.find(name, i+1) {
		q.values = append(q.values, q.text(q.fields[i].value))
	}
	return q.values
}

// HasToken reports whether the list in the fields of that name holds a token, in any letter case.
func (q *Request) HasToken(name, token string) bool {
	for _, v := range q.Values(name) {
		if syntax.HasToken(v, token) {
			return true
		}
	}
	return false
}

// Header returns a function that makes an http.Header of the fields, also when q is no longer valid.
func (q *Request) Header() func() http.Header {
	if header := q.header; header != nil {
		return func() http.Header { return header }
	}
	head := q.head
	return func() http.Header {
		var q Request
		q.parse(head)
		return q.makeHeader()
	}
}

func (q *Request) makeHeader() http.Header {
	return syntax.Header(len(q.fields), func(i int) (name, value string) {
		return q.text(q.fields[i].name), q.text(q.fields[i].value)
	})
}
