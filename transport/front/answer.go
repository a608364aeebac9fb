package front

import (
	"net/http"
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
