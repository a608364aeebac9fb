package front

import (
	"net/http"
	"strconv"
	"time"
)

// plainText is the type of answers that are texts; browsers must not take them for anything
// else.
const plainText = "text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff"

// maxAnswerHead is more than appendHead appends, without the content type; bytes.
const maxAnswerHead = 192

// appendHead appends the head of an answer whose body has length bytes. If last is set, it
// tells the client that the connection ends.
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

// answer returns the whole answer, as http.Error writes it.
func (f *Refusal) answer() []byte {
	date := time.Now().UTC().AppendFormat(nil, http.TimeFormat)
	return append(appendHead(nil, f.Status, plainText, date, len(f.Text)+1, false), f.Text+"\n"...)
}
