package httpstream

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport/internal/driver"
)

// responses makes a netio.Duplex of the body of an answer. Reading tells when the client has gone.
type responses struct {
	w       http.ResponseWriter
	control *http.ResponseController
	ctx     context.Context // of the request
	wake    chan struct{}   // a state below has changed

	mu      sync.Mutex
	readBy  time.Time
	writeBy time.Time // the deadline of the write under way
	closed  bool
}

func newResponses(w http.ResponseWriter, r *http.Request) *responses {
	s := &responses{w: w, control: http.NewResponseController(w), ctx: r.Context(), wake: make(chan struct{}, 1)}
	// The deadlines of http.Server are meant for requests.
	_ = s.control.SetReadDeadline(time.Time{})
	_ = s.control.SetWriteDeadline(time.Time{})
	return s
}

// Read waits until the client has gone, the answer is closed, or the deadline passes. It reports a write that took too
// long, because that ends the request.
func (s *responses) Read([]byte) (int, error) {
	for {
		s.mu.Lock()
		readBy, closed := s.readBy, s.closed
		s.mu.Unlock()
		if closed {
			return 0, io.EOF
		}
		var due <-chan time.Time
		if !readBy.IsZero() {
			wait := time.Until(readBy)
			if wait <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			t := time.NewTimer(wait)
			defer t.Stop()
			due = t.C
		}
		select {
		case <-s.ctx.Done():
			return 0, s.gone()
		case <-s.wake:
		case <-due:
		}
	}
}

func (s *responses) gone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.writeBy.IsZero() && !time.Now().Before(s.writeBy) {
		return driver.WriteError(os.ErrDeadlineExceeded)
	}
	return io.EOF
}

func (s *responses) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.control.Flush()
}

func (s *responses) SetReadDeadline(t time.Time) error {
	s.change(func() { s.readBy = t })
	return nil
}

func (s *responses) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	s.writeBy = t
	s.mu.Unlock()
	return s.control.SetWriteDeadline(t)
}

// CloseWrite ends the body when the handler returns, which follows the end of reading.
func (s *responses) CloseWrite() error { return s.Close() }

func (s *responses) Close() error {
	s.change(func() { s.closed = true })
	return nil
}

// Abort ends the answer without the end of its body, by a write deadline in the past.
func (s *responses) Abort() {
	_ = s.control.SetWriteDeadline(time.Unix(1, 0))
	_ = s.Close()
}

func (s *responses) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
