package websocket

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// response is the http.ResponseWriter of handshakes that loops read.
type response struct {
	handler *Handler    // to which the connection may go
	accept  *acceptance // set by handler if it goes there
	header  http.Header
	sent    http.Header // header as it was when the status became known
	status  int
	body    []byte
}

// responseBehind finds the response below middleware, nil if there is none.
func responseBehind(w http.ResponseWriter) *response {
	for {
		switch v := w.(type) {
		case *response:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational answers but 101 are
// left out.
func (w *response) WriteHeader(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status, w.sent = status, w.header
	if status != http.StatusSwitchingProtocols { // nothing follows it
		w.sent = w.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch w.status {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// send writes the answer to a socket that has sent nothing so far, and so takes it
// at once. It reports false if the connection is of no use.
func (w *response) send(fd uintptr) bool {
	w.WriteHeader(http.StatusOK)
	var b []byte
	if w.accept != nil {
		b = w.accept.hs.answer(w.sent)
	} else {
		b = w.render()
	}
	n, err := netio.TryWrite(fd, [][]byte{b})
	if err != nil || n < len(b) {
		return false
	}
	if w.accept == nil && hasToken(w.sent, "Connection", "close") {
		netio.ShutdownWrite(fd)
	}
	return true
}

// render is an answer that is not 101, as net/http writes it.
func (w *response) render() []byte {
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
