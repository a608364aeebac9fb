package websocket

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/transport/internal/driver"
)

// h2Stream makes a netio.Duplex of an HTTP/2 stream, which ends when the request's handler returns.
type h2Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.ReadCloser
	writeBy atomic.Pointer[time.Time] // the deadline of the write under way
}

// Read also fails after a write that took too long, because that resets the stream.
func (s *h2Stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if t := s.writeBy.Load(); err != nil && t != nil && !time.Now().Before(*t) {
		err = driver.WriteError(err)
	}
	return n, err
}

func (s *h2Stream) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.control.Flush()
}

func (s *h2Stream) SetReadDeadline(t time.Time) error { return s.control.SetReadDeadline(t) }

func (s *h2Stream) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		s.writeBy.Store(nil)
	} else {
		s.writeBy.Store(&t)
	}
	return s.control.SetWriteDeadline(t)
}

// Close ends reading. Written bytes go out when the handler returns.
func (s *h2Stream) Close() error { return s.body.Close() }

// Abort resets the stream, by a write deadline in the past.
func (s *h2Stream) Abort() {
	_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	_ = s.body.Close()
}
