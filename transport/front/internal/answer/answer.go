// Package answer writes the heads of answers.
package answer

import (
	"net/http"
	"strconv"
)

// PlainText is the type of texts; browsers must not take them for anything else.
const PlainText = "text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff"

// MaxHead is more bytes than Head.Append appends besides ContentType and Fields.
const MaxHead = 192

// Head has the contents of the head of an answer.
type Head struct {
	Status      int
	ContentType string
	Date        []byte
	Fields      []byte // further fields, each with its line end
	Length      int    // bytes of the body
	Close       bool   // the connection ends after the answer
}

// Bodiless reports whether answers of a status have no body (RFC 9110 section 6.4.1).
func Bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// Append appends the head. An answer without a body has no field about one.
func (h *Head) Append(b []byte) []byte {
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(h.Status), 10), ' ')
	b = append(b, http.StatusText(h.Status)...)
	if !Bodiless(h.Status) {
		b = append(append(b, "\r\nContent-Type: "...), h.ContentType...)
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(h.Length), 10)
	}
	b = append(append(b, "\r\nDate: "...), h.Date...)
	if h.Close {
		b = append(b, "\r\nConnection: close"...)
	}
	return append(append(append(b, "\r\n"...), h.Fields...), "\r\n"...)
}
