package operators

import (
	"io"
	"net/http"
	"time"
)

// quietTime: after so long without a line an empty one is written, so that proxies keep the connection, and the server
// notices that the reader has gone.
const quietTime = 10 * time.Second

// readBody reads the body of a request to its end: after that net/http notices when the reader goes away.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

type lines struct {
	w         http.ResponseWriter
	control   *http.ResponseController
	writeTime time.Duration // how long a reader may take for what one call of write sends
	begun     bool
	last      time.Time // of write
}

// newLines removes the deadline of the listener. The body of the request must have been read.
func newLines(w http.ResponseWriter, writeTime time.Duration) *lines {
	l := &lines{w: w, control: http.NewResponseController(w), writeTime: writeTime, last: time.Now()}
	_ = l.control.SetReadDeadline(time.Time{}) // without it, the end of the connection ends the request
	return l
}

func (l *lines) quiet() bool { return time.Since(l.last) >= quietTime }

// write begins the answer if it has not begun. Without text it writes an empty line.
func (l *lines) write(text []byte) error {
	if !l.begun {
		l.begun = true
		head := l.w.Header()
		head.Set("Content-Type", "application/x-ndjson")
		head.Set("Cache-Control", "no-store")
		head.Set("X-Accel-Buffering", "no") // nginx passes lines on at once
		l.w.WriteHeader(http.StatusOK)
	}
	l.last = time.Now()
	_ = l.control.SetWriteDeadline(l.last.Add(l.writeTime))
	if len(text) == 0 {
		text = []byte{'\n'}
	}
	if _, err := l.w.Write(text); err != nil {
		return err
	}
	return l.control.Flush()
}
