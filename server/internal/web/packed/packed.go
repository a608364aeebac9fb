// Package packed serves embedded files, compressed if the client accepts it.
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
	"sync"
	"time"
)

// File serves one file.
type File struct {
	kind, policy, tag string
	compressed        []byte // nil: it is not
	plain             func() []byte
}

// New returns a file with its Content-Type and Content-Security-Policy.
func New(kind, policy string, body []byte) *File {
	return &File{kind: kind, policy: policy, tag: tagOf(body), plain: func() []byte { return body }}
}

// Compressed returns a file whose body is compressed with gzip. The first client that does not accept it has it
// uncompressed.
func Compressed(kind, policy string, body []byte) *File {
	plain := sync.OnceValue(func() []byte { return uncompressed(body) })
	return &File{kind: kind, policy: policy, tag: tagOf(body), compressed: body, plain: plain}
}

func uncompressed(body []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		panic(err) // it is embedded
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		panic(err) // as above
	}
	return plain
}

// tagOf returns a weak ETag, as the compressed and the plain file share it.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
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
	body := f.compressed
	if body != nil {
		header.Set("Vary", "Accept-Encoding")
	}
	if body != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
	} else {
		body = f.plain()
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

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
