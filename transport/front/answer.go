package front

import (
	"net/http"
	"strconv"
	"time"
)

// plainText is the type of answers that are texts, and says that they are nothing else.
const plainText = "text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff"

// maxAnswerHead is more than what appendHead appends, but for the type.
const maxAnswerHead = 192

// appendHead appends the head of an answer, the body of which has length bytes. last tells
// the client that the connection ends.
func appendHead(b []byte, status int, contentType string, date []byte, length int, last bool) []byte {
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10), ' ')
	b = append(append(append(b, http.StatusText(status)...), "\r\nContent-Type: "...), contentType...)
	b = append(append(b, "\r\nDate: "...), date...)
	if last {
		b = append(b, "\r\nConnection: close"...)
	}
	b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(length), 10)
	return append(b, "\r\n\r\n"...)
}

// answer is the whole answer, as http.Error writes it.
func (f *Refusal) answer() []byte {
	date := time.Now().UTC().AppendFormat(nil, http.TimeFormat)
	return append(appendHead(nil, f.Status, plainText, date, len(f.Text)+1, false), f.Text+"\n"...)
}
