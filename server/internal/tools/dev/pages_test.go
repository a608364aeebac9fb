package dev

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/auth"
)

// ask sends a request to the pages of a server.
func ask(t *testing.T, pages map[string]http.Handler, method, path, body string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost:8000"+path, strings.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	pages[path].ServeHTTP(w, r)
	return w
}

func TestPage(t *testing.T) {
	t.Parallel()
	pages := Pages(configOf(t, Options{Secret: "<script>&'\"", APIKey: "k"}))
	for path, kind := range map[string]string{
		"/": "text/html", "/dev/style.css": "text/css", "/dev/client.js": "text/javascript",
		"/dev/transports.js": "text/javascript", "/dev/chat.js": "text/javascript",
	} {
		w := ask(t, pages, "GET", path, "", nil)
		h := w.Header()
		if w.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", path, w.Code, h)
		}
		if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: header %v", path, h)
		}
		if w := ask(t, pages, "POST", path, "", nil); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	w := ask(t, pages, "GET", "/", "", nil)
	csp := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self' ws://localhost:8000;", "frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("%s is not in %s", want, csp)
		}
	}
	page := w.Body.String()
	if strings.Contains(csp, "unsafe") || strings.Contains(page, "<script>") || strings.Contains(page, " style=") || strings.Contains(page, " onclick=") {
		t.Errorf("something inline: %s", csp)
	}
	for _, to := range regexp.MustCompile(`<(?:link|script|img)[^>]*(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(to[1], "/dev/") && !strings.HasPrefix(to[1], "data:") {
			t.Errorf("something external is loaded: %s", to[0])
		}
	}
	for _, to := range []string{AdminPrefix + "/", docs} {
		if !strings.Contains(page, `<a href="`+to+`"`) {
			t.Errorf("there is no link to %s", to)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, Options{})
	pages := Pages(cfg)
	v, err := auth.NewVerifier(cfg.Client.Token, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{"": "", "{}": "", `{"user":"anna"}`: "anna", `{"user":"Zoë <&>"}`: "Zoë <&>"} {
		var got struct{ User, Token string }
		w := ask(t, pages, "POST", "/dev/token", body, nil)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %v %s", body, w.Code, err, w.Body)
		}
		token, err := v.VerifyConnect(t.Context(), got.Token)
		if err != nil || token.User != got.User || got.User == "" || want != "" && got.User != want {
			t.Errorf("%s: %+v, token %+v %v", body, got, token, err)
		}
	}
	for _, body := range []string{"x", `{"user":1}`, `{"user":"a\nb"}`, `{"user":"` + strings.Repeat("x", 65) + `"}`, `{"user":"` + strings.Repeat("x", 2000) + `"}`} {
		if w := ask(t, pages, "POST", "/dev/token", body, nil); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `{"user":"NAME"}`) {
			t.Errorf("%.80s: %d %s", body, w.Code, w.Body)
		}
	}
}

// TestOtherSites: a page of another site makes neither tokens nor publications.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	pages := Pages(configOf(t, Options{}))
	for _, header := range []http.Header{{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"http://localhost:3000"}}} {
		for _, path := range []string{"/dev/token", "/dev/publish"} {
			if w := ask(t, pages, "POST", path, "", header); w.Code != http.StatusForbidden {
				t.Errorf("%s %v: %d %s", path, header, w.Code, w.Body)
			}
		}
	}
}

func TestCurl(t *testing.T) {
	t.Parallel()
	const want = `curl -s http://localhost:8000/api/publish -H 'X-API-Key: it'\''s' -d '{"channel":"chat:index","data":{"text":"Hello from the backend"}}'`
	if got := Curl(configOf(t, Options{APIKey: "it's"}), "localhost:8000"); got != want {
		t.Errorf("got %s", got)
	}
}
