package httpstream

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// protobufType is the Content-Type of Protobuf requests; all others are JSON.
	protobufType = "application/octet-stream"
	// postMethods are the methods of endpoints for requests with a body.
	postMethods = "POST, OPTIONS"
	// statusClosed is the answer to a request whose body did not arrive. Most of these clients have gone.
	statusClosed = 499
)

// readBody returns the whole body, or else the status of the answer: 413 if it has more than limit
// bytes, 499 if it does not arrive. It takes no more memory than has arrived.
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

// grace is the time to write an answer when the write deadline of the server may have passed. It is also the time to
// receive the unread rest of a body, because a client that gets a reset while it sends loses the answer.
const grace = time.Second

// prolong gives time to write the answer to a request that has taken long.
func prolong(w http.ResponseWriter, began time.Time) {
	if time.Since(began) > grace {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(grace)) // if this fails, writing may
	}
}
