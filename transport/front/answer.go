package front

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// plainText is the type of answers that are texts; browsers must not take them for anything
// else.
const plainText = "text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff"

// maxAnswerHead is more than head.append appends, without the content type and the route's fields;
// bytes.
const maxAnswerHead = 192

// head is what the head of an answer says.
type head struct {
	status      int
	contentType string
	date        []byte
	fields      []byte // further fields, each with its line end
	length      int    // bytes of the body
	last        bool   // the connection ends
}

// bodiless reports whether answers of a status have no body (RFC 9110 section 6.4.1).
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// append appends the head. An answer without a body has no field about one.
func (h *head) append(b []byte) []byte {
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(h.status), 10), ' ')
	b = append(b, http.StatusText(h.status)...)
	if !bodiless(h.status) {
		b = append(append(b, "\r\nContent-Type: "...), h.contentType...)
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(h.length), 10)
	}
	b = append(append(b, "\r\nDate: "...), h.date...)
	if h.last {
		b = append(b, "\r\nConnection: close"...)
	}
	return append(append(append(b, "\r\n"...), h.fields...), "\r\n"...)
}

// answer returns the whole answer, as http.Error writes it.
func (f *Refusal) answer() []byte {
	date := time.Now().UTC().AppendFormat(nil, http.TimeFormat)
	h := head{status: f.Status, contentType: plainText, date: date, length: len(f.Text) + 1}
	return append(h.append(nil), f.Text+"\n"...)
}

// answerer makes the answers of one goroutine or loop, in memory that it keeps.
type answerer struct {
	front  *Listener
	out    []byte
	fields []byte    // of the route
	at     time.Time // of the last answer; zero: there was none
	date   []byte    // the field Date of the second of at
}

// reply lets a request pass the gate of its route, and returns the answer, whose body call appends
// to out. The connection ends after it if last is true. If call returns status 0, reply returns
// nil, and the request leaves the gate when it was served elsewhere.
func (a *answerer) reply(q *Request, r *route, call func(out []byte) (status int, answer []byte)) (answer []byte, last bool) {
	status := http.StatusInternalServerError // for a panic
	defer func() {
		if status != 0 {
			r.Gate.Leave(q, status)
		}
	}()
	refused := r.Gate.Enter(q)
	if a.fields = r.advertise(q, a.fields[:0]); refused == nil && r.Fields != nil {
		a.fields = r.Fields(q, a.fields)
	}
	// There is room for the head before the body, because it needs the size of the body.
	room := maxAnswerHead + max(len(r.ContentType), len(plainText)) + len(a.fields)
	out, contentType := slices.Grow(a.out[:0], room)[:room], plainText
	if refused != nil {
		status, out = refused.Status, append(append(out, refused.Text...), '\n')
	} else {
		status, out = call(out)
		switch {
		case status == 0:
			return nil, false
		case status == http.StatusOK:
			contentType = r.ContentType
		case bodiless(status):
			out = out[:room]
		default:
			out = append(append(out[:room], http.StatusText(status)...), '\n')
		}
	}
	a.out, last = out, a.front.isClosing()
	return a.withHead(status, contentType, room, last), last
}

// withHead puts the head before the body, which begins at room in a.out, and returns the answer.
func (a *answerer) withHead(status int, contentType string, room int, last bool) []byte {
	now := time.Now()
	if a.at.IsZero() || now.Unix() != a.at.Unix() {
		a.date = now.UTC().AppendFormat(a.date[:0], http.TimeFormat)
	}
	a.at = now
	h := head{status: status, contentType: contentType, date: a.date, fields: a.fields, length: len(a.out) - room, last: last}
	var text [2 * maxAnswerHead]byte
	t := h.append(text[:0])
	begin := room - len(t)
	copy(a.out[begin:], t)
	return a.out[begin:]
}

// trim frees memory that only large answers need.
func (a *answerer) trim() {
	if cap(a.out) > maxKept {
		a.out = nil
	}
	if cap(a.fields) > maxKept {
		a.fields = nil
	}
}
