// Package swagger serves the OpenAPI document of the server API and Swagger UI (docs/http-api.md#the-openapi-document).
// The page loads nothing from other hosts.
package swagger

import (
	"bytes"
	"embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro/server/internal/web/packed"
)

// The document is made of the schema of the API and of openapi.yaml, which has the examples.
//

// The files of Swagger UI are compressed as browsers get them. scripts/swagger-ui.sh makes them.
//
//go:embed openapi.json page.html page.js ui/*.gz
var files embed.FS

// policy lets the page use this server alone, and run code from files only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// New returns the handler of the paths that begin with below, which ends with a slash. api is the path of the server
// API, without a slash at its end unless it is "/".
func New(below, api string) http.Handler {
	const javaScript, text = "text/javascript; charset=utf-8", "text/plain; charset=utf-8"
	served := map[string]*packed.File{
		"":             packed.New("text/html; charset=utf-8", policy, file("page.html")),
		"page.js":      packed.New(javaScript, policy, file("page.js")),
		"openapi.json": packed.New("application/json", policy, document(file("openapi.json"), api)),
	}
	for name, kind := range map[string]string{
		"swagger-ui-bundle.js": javaScript, "swagger-ui.css": "text/css; charset=utf-8",
		"swagger-ui-bundle.js.LICENSE.txt": text, "LICENSE": text, "NOTICE": text,
	} {
		served[name] = packed.Compressed(kind, policy, file("ui/"+name+".gz"))
	}
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

const documentAPI = "/api"

// document returns the document for an API at the path api.
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

func file(name string) []byte {
	body, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return body
}
