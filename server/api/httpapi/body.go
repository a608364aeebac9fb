package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// firstRead is the least room that reading begins with.
	firstRead = 1 << 10
	// maxTrusted bounds the memory that a Content-Length alone can claim.
	maxTrusted = 1 << 20
	// maxPooled bounds the memory that the pool holds on to per buffer.
	maxPooled = 64 << 10
	// maxImplicit is the size up to which net/http finds the Content-Length itself.
	maxImplicit = 2048
)

// buffer holds the body of a request and then that of its answer.
type buffer struct{ b []byte }

var buffers = sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, firstRead)} }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

func putBuffer(b *buffer) {
	if cap(b.b) <= maxPooled {
		b.b = b.b[:0]
		buffers.Put(b)
	}
}

// readBody reads the whole body, or answers why it cannot.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, body *buffer) bool {
	if r.ContentLength > h.maxBody {
		writeText(w, http.StatusRequestEntityTooLarge)
		return false
	}
	if want := int(min(r.ContentLength, maxTrusted)) + 1; want > cap(body.b) {
		body.b = make([]byte, 0, want)
	}
	src := r.Body
	if r.ContentLength < 0 {
		src = http.MaxBytesReader(w, r.Body, h.maxBody)
	}
	if err := readAll(body, src); err != nil {
		h.refuseBody(w, r, err)
		return false
	}
	return true
}

func (h *Handler) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		writeText(w, http.StatusRequestEntityTooLarge)
		return
	}
	h.log.DebugContext(r.Context(), "API request body cannot be read", "error", err)
	writeText(w, http.StatusInternalServerError)
}

func readAll(body *buffer, src io.Reader) error {
	b := body.b[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		body.b = b
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// jsonType is shared by all answers; nothing may change it.
var jsonType = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	if len(body) > maxImplicit {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	// An error means that the caller is gone; there is nobody to tell.
	_, _ = w.Write(body)
}

// writeText answers with the status' own text and a newline.
func writeText(w http.ResponseWriter, status int) { http.Error(w, http.StatusText(status), status) }
