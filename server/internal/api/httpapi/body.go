package httpapi

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

const (
	// firstRead is the smallest buffer.
	firstRead = 1 << 10
	// maxTrusted is how much memory a Content-Length alone gets.
	maxTrusted = 1 << 20
	// maxSmall and maxPooled bound buffers in the pools. Large ones have a pool of their own, so that they do not live
	// on as buffers of small requests.
	maxSmall  = 64 << 10
	maxPooled = 16 << 20
	// maxImplicit is the largest answer whose Content-Length net/http adds.
	maxImplicit = 2048
)

// buffer holds the body of a request, then of its answer.
type buffer struct{ b []byte }

var smallBuffers, largeBuffers sync.Pool

// getBuffer returns a buffer; size may be a guess.
func getBuffer(size int64) *buffer {
	pool := &smallBuffers
	if size > maxSmall {
		pool = &largeBuffers
	}
	if b, ok := pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, firstRead)}
}

func putBuffer(b *buffer) {
	b.b = b.b[:0]
	switch c := cap(b.b); {
	case c <= maxSmall:
		smallBuffers.Put(b)
	case c <= maxPooled:
		largeBuffers.Put(b)
	}
}

// readBody reads the body, or answers why it cannot.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request, body *buffer) bool {
	if r.ContentLength > h.maxBody {
		h.tooLarge(w, r)
		return false
	}
	if want := int(min(r.ContentLength, maxTrusted)) + 1; want > cap(body.b) {
		body.b = make([]byte, 0, want)
	}
	src := r.Body
	if r.ContentLength < 0 {
		src = http.MaxBytesReader(w, r.Body, h.maxBody)
	}
	if err := readAll(body, src, int(r.ContentLength)); err != nil {
		h.refuseBody(w, r, err)
		return false
	}
	return true
}

func (h *Handler) refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		w.Header().Set("Connection", "close") // as http.MaxBytesReader does where w is not wrapped
		h.tooLarge(w, r)
		return
	}
	h.refusals.Log.DebugContext(r.Context(), "API request body cannot be read", "error", err)
	writeText(w, http.StatusInternalServerError)
}

// readAll reads src. want is the claimed length, or negative. The buffer grows to four times the received bytes at most.
func readAll(body *buffer, src io.Reader, want int) error {
	b := body.b[:0]
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(min(want+1, 4*len(b))-len(b), 1))
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

// jsonType is shared by all answers, and must not change.
var jsonType = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header["Content-Type"] = jsonType
	if len(body) > maxImplicit {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(body)
}

func (h *Handler) badRequest(w http.ResponseWriter, r *http.Request, text string) {
	h.refuse(r, http.StatusBadRequest, "", text)
	http.Error(w, "Bad Request: "+text, http.StatusBadRequest)
}

func (h *Handler) tooLarge(w http.ResponseWriter, r *http.Request) {
	text := "the body has more than " + strconv.FormatInt(h.maxBody, 10) + " bytes"
	h.refuse(r, http.StatusRequestEntityTooLarge, "", text)
	http.Error(w, "Request Entity Too Large: "+text, http.StatusRequestEntityTooLarge)
}

// writeText answers with the text of the status.
func writeText(w http.ResponseWriter, status int) { http.Error(w, http.StatusText(status), status) }
