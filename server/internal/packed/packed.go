// Package packed serves the embedded files of pages: to most browsers compressed, as they are embedded.
package packed

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// File is served under one path. It is a http.Handler.
type File struct {
	kind, policy string
	plain        []byte
	compressed   []byte // nil: it is not
	tag          string // ETag
}

// New returns a file with its Content-Type and Content-Security-Policy. isGzip tells whether body is compressed.
func New(kind, policy string, body []byte, isGzip bool) (*File, error) {
	f := &File{kind: kind, policy: policy}
	if !isGzip {
		f.Replace(body)
		return f, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	f.Replace(plain)
	f.compressed = body
	return f, nil
}

// Body returns the file, not compressed.
func (f *File) Body() []byte { return f.plain }

// Replace changes the file, before it is served. It is not compressed then.
func (f *File) Replace(plain []byte) {
	sum := sha256.Sum256(plain)
	// A weak one, as it is that of the compressed file and of what is in it.
	f.plain, f.compressed, f.tag = plain, nil, `W/"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
}

// ServeHTTP implements http.Handler.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("Etag", f.tag)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", f.policy)
	body := f.plain
	if f.compressed != nil {
		header.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			header.Set("Content-Encoding", "gzip")
			body = f.compressed
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// takesGzip tells whether a client accepts answers that are compressed.
func takesGzip(accepted string) bool {
	for coding := range strings.SplitSeq(accepted, ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			_, weight, _ = strings.Cut(weight, "=")
			q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
			return err != nil || q > 0
		}
	}
	return false
}
