package httpstream

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	protobufType = "application/octet-stream"
	postMethods  = "POST, OPTIONS"
	// statusClosed: the body did not arrive. Most of these clients have gone.
	statusClosed = 499
)

// readBody returns the whole body, or the status of the answer: 413 above limit, 499 if it does not arrive. It takes no
// more memory than has arrived.
func readBody(w http.ResponseWriter, r *http.Request, limit int) (body []byte, status int) {
	if r.ContentLength > int64(limit) {
		return nil, http.StatusRequestEntityTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, statusClosed
	}
	return body, 0
}

// grace is the time to write an answer after the server's write deadline, and to receive the unread rest of a body.
const grace = time.Second

func prolong(w http.ResponseWriter, began time.Time) {
	if time.Since(began) > grace {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(grace)) // if this fails, writing may
	}
}
