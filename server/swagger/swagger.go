// Package swagger serves the OpenAPI document of the server API, and a page to read it and to send
// requests: Swagger UI (docs/http-api.md#the-openapi-document). The page loads nothing from other hosts.
package swagger

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The document is made of the schema of the API and of openapi.yaml, which has the examples.
//
//go:generate go run github.com/gyrohq/gyro/tools/codecgen -schema ../api/api.proto -openapi openapi.yaml -out .

// The files of Swagger UI are compressed as browsers get them. scripts/swagger-ui.sh makes them.
//
//go:embed openapi.json page.html page.js ui/*.gz
var files embed.FS

// policy lets the page load and call nothing but this server, and run no code but that of files.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// New returns the handler of all paths that begin with below, which ends with a slash. api is the
// path of the server API, such as "/api"; it ends with no slash, unless it is "/".
func New(below, api string) http.Handler {
	const javaScript, text = "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
	served := map[string]*file{
		"":             newFile("page.html", "text/html; charset=utf-8"),
		"page.js":      newFile("page.js", javaScript),
		"openapi.json": newFile("openapi.json", "application/json"),
	}
	for name, kind := range map[string]string{
		"swagger-ui-bundle.js": javaScript, "swagger-ui.css": "text/css; charset=utf-8",
		"swagger-ui-bundle.js.LICENSE.txt": text, "LICENSE": text, "NOTICE": text,
	} {
		served[name] = newFile("ui/"+name+".gz", kind)
	}
	served["openapi.json"].replace(document(served["openapi.json"].body, api))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := served[strings.TrimPrefix(r.URL.Path, below)]
		switch {
		case f == nil:
			http.Error(w, "404 page not found: the page is "+below, http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "this path is for GET", http.StatusMethodNotAllowed)
		default:
			f.ServeHTTP(w, r)
		}
	})
}

// documentAPI is the path of the server API in the document that is embedded.
const documentAPI = "/api"

// document returns the document with the paths of a server whose API is at the path api.
func document(embedded []byte, api string) []byte {
	quoted := func(path string) []byte {
		text, err := json.Marshal(path)
		if err != nil {
			panic(err) // a text
		}
		return text
	}
	begin := func(path string) []byte { return bytes.TrimSuffix(quoted(path+"/"), []byte(`"`)) }
	moved := bytes.ReplaceAll(embedded, begin(documentAPI), begin(strings.TrimSuffix(api, "/")))
	return bytes.ReplaceAll(moved, quoted(documentAPI), quoted(api))
}

// file is served under one path.
type file struct {
	kind   string // Content-Type
	body   []byte
	packed bool   // body is compressed by gzip
	tag    string // ETag
}

// newFile returns an embedded file.
func newFile(name, kind string) *file {
	body, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	f := &file{kind: kind, packed: strings.HasSuffix(name, ".gz")}
	f.replace(body)
	return f
}

func (f *file) replace(body []byte) {
	sum := sha256.Sum256(body)
	// A weak one, as it is that of the compressed file and of what is in it.
	f.body, f.tag = body, `W/"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
}

// ServeHTTP implements http.Handler.
func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("Etag", f.tag)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Content-Security-Policy", policy)
	body := f.body
	if f.packed {
		header.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			header.Set("Content-Encoding", "gzip")
		} else {
			body = unpacked(body)
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

// unpacked returns what is in an embedded file that is compressed.
func unpacked(body []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		body, err = io.ReadAll(r)
	}
	if err != nil {
		panic(err) // it is embedded
	}
	return body
}
