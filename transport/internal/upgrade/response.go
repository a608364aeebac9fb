package upgrade

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Response is the http.ResponseWriter of requests that loops read.
type Response struct {
	owner  any
	header http.Header
	sent   http.Header // header as it was when the status became known
	status int
	body   []byte
	answer []byte // of who took the connection
	start  func(l transport.Loop, fd uintptr, early []byte)
}

// Behind finds the Response below middleware, if owner may take its connection;
// else it is nil.
func Behind(w http.ResponseWriter, owner any) *Response {
	for {
		switch v := w.(type) {
		case *Response:
			if v.owner != owner {
				return nil
			}
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// Take takes the connection once the server's handler has returned and answer, a
// response of status 101, is written: start is called on the loop, which still
// watches the socket. fd, which is non-blocking, belongs to start, early are bytes
// that followed the request. Middleware is told by WriteHeader before.
func (w *Response) Take(answer []byte, start func(l transport.Loop, fd uintptr, early []byte)) {
	w.answer, w.start = answer, start
}

// Header implements http.ResponseWriter.
func (w *Response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational answers but 101 are
// left out.
func (w *Response) WriteHeader(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status, w.sent = status, w.header
	if status != http.StatusSwitchingProtocols { // nothing follows it
		w.sent = w.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *Response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch w.status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// send writes the answer. It reports false if the connection is of no use.
func (w *Response) send(fd uintptr) bool {
	w.WriteHeader(http.StatusOK)
	b := w.answer
	if w.start == nil {
		b = w.render()
	}
	if !write(fd, b) {
		return false
	}
	if w.start == nil && HasToken(w.sent, "Connection", "close") {
		netio.ShutdownWrite(fd)
	}
	return true
}

// render is an answer that is not 101, as net/http writes it.
func (w *Response) render() []byte {
	h := w.sent
	if h.Get("Date") == "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if w.status != http.StatusNoContent && w.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(w.body)))
		if len(w.body) > 0 && len(h["Content-Type"]) == 0 {
			h.Set("Content-Type", http.DetectContentType(w.body))
		}
	}
	h.Del("Transfer-Encoding")
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", w.status, http.StatusText(w.status))
	_ = h.Write(&b)
	b.WriteString("\r\n")
	b.Write(w.body)
	return b.Bytes()
}
