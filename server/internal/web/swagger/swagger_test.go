package swagger

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gyrohq/gyro/server/internal/api"
)

// ask sends a request to a handler.
func ask(h http.Handler, method, path string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:8000"+path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFiles(t *testing.T) {
	h := New("/swagger/", "/api")
	for path, want := range map[string]struct{ kind, text string }{
		"/swagger/":                                 {"text/html", "swagger-ui-bundle.js"},
		"/swagger/page.js":                          {"text/javascript", "openapi.json"},
		"/swagger/openapi.json":                     {"application/json", `"openapi": "3.1.0"`},
		"/swagger/swagger-ui-bundle.js":             {"text/javascript", "SwaggerUIBundle"},
		"/swagger/swagger-ui.css":                   {"text/css", ".swagger-ui"},
		"/swagger/swagger-ui-bundle.js.LICENSE.txt": {"text/plain", "MIT"},
		"/swagger/LICENSE":                          {"text/plain", "Apache License"},
		"/swagger/NOTICE":                           {"text/plain", "SmartBear"},
	} {
		w := ask(h, http.MethodGet, path, nil)
		header := w.Header()
		if w.Code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), want.kind) || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d %v %.200s", path, w.Code, header, w.Body)
		}
		if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: header %v", path, header)
		}
		if w := ask(h, http.MethodGet, path, http.Header{"If-None-Match": {header.Get("Etag")}}); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
			t.Errorf("%s again: %d %d bytes", path, w.Code, w.Body.Len())
		}
		if w := ask(h, http.MethodHead, path, nil); w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d %d bytes", path, w.Code, w.Body.Len())
		}
		if w := ask(h, http.MethodPost, path, nil); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/swagger/x", "/swagger/ui/LICENSE.gz", "/swagger/../swagger/", "/swagger//", "/swagger/openapi.yaml"} {
		if w := ask(h, http.MethodGet, path, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestCompressed: who takes gzip gets the file as it is embedded, and everybody else what is in it.
func TestCompressed(t *testing.T) {
	h := New("/swagger/", "/api")
	const path = "/swagger/swagger-ui.css"
	plain := ask(h, http.MethodGet, path, nil).Body.Bytes()
	for accepted, packed := range map[string]bool{
		"": false, "gzip": true, "deflate, GZIP;q=0.5, br": true, "gzip;q=0": false, "gzip; q=0.0": false, "br": false, "x-gzipped": false, "gzip;q=x": true,
	} {
		w := ask(h, http.MethodGet, path, http.Header{"Accept-Encoding": {accepted}})
		body := w.Body.Bytes()
		if packed {
			r, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", accepted, err)
			}
			if body, err = io.ReadAll(r); err != nil {
				t.Fatalf("%s: %v", accepted, err)
			}
		}
		if w.Header().Get("Content-Encoding") == "gzip" != packed || w.Header().Get("Vary") != "Accept-Encoding" || !bytes.Equal(body, plain) {
			t.Errorf("%s: %d bytes, header %v", accepted, w.Body.Len(), w.Header())
		}
	}
}

// TestPage: nothing is inline, and nothing comes from elsewhere.
func TestPage(t *testing.T) {
	page := ask(New("/swagger/", "/api"), http.MethodGet, "/swagger/", nil).Body.String()
	if regexp.MustCompile(`<script>|<style| style=| on\w+=`).MatchString(page) {
		t.Errorf("something inline: %s", page)
	}
	for _, to := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(to[1], "/") || strings.Contains(to[1], ":") && to[1] != "data:," {
			t.Errorf("something external: %s", to[0])
		}
	}
}

// TestDocument: it has each method of the API under the path that the configuration gives it.
func TestDocument(t *testing.T) {
	for prefix, legacy := range map[string]string{"/api": "/api", "/": "/", "/v1/api": "/v1/api", `/a"b\`: `/a"b\`} {
		var document struct {
			Paths map[string]struct {
				Post struct{ OperationID, Summary string }
			}
		}
		w := ask(New("/docs/", prefix), http.MethodGet, "/docs/openapi.json", nil)
		if err := json.Unmarshal(w.Body.Bytes(), &document); err != nil {
			t.Fatalf("%s: %v", prefix, err)
		}
		var got, want []string
		for path, item := range document.Paths {
			got = append(got, path+" "+item.Post.OperationID)
			if item.Post.Summary == "" {
				t.Errorf("%s has no summary", path)
			}
		}
		want = append(want, legacy+" commands")
		for _, m := range api.Methods() {
			want = append(want, strings.TrimSuffix(prefix, "/")+"/"+m.String()+" "+m.String())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", prefix, got, want)
		}
	}
}

// TestValid: the document is what the published schema of OpenAPI 3.1 asks for (spec.openapis.org), its
// schemas are JSON schemas, and each member has a description.
func TestValid(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	read := func(name string, text []byte) any {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = compiler.AddResource(name, value)
		}
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	published, err := os.ReadFile("testdata/oas-3.1.json")
	if err != nil {
		t.Fatal(err)
	}
	read("oas.json", published)
	openAPI, err := compiler.Compile("oas.json")
	if err != nil {
		t.Fatal(err)
	}
	document := read("openapi.json", ask(New("/swagger/", "/api"), http.MethodGet, "/swagger/openapi.json", nil).Body.Bytes())
	if err := openAPI.Validate(document); err != nil {
		t.Errorf("%#v", err)
	}
	schemas := document.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	for name, schema := range schemas {
		if _, err := compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Error(err)
		}
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for member, property := range properties {
			p := property.(map[string]any)
			if text, _ := p["description"].(string); text == "" && p["$ref"] == nil {
				t.Errorf("%s.%s has no description", name, member)
			}
		}
	}
	info := document.(map[string]any)["info"].(map[string]any)
	delete(info, "title")
	if openAPI.Validate(document) == nil {
		t.Error("a document without a title is valid")
	}
}
