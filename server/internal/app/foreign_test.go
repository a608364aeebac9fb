package app

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestForeignPages: what a page makes a browser send acts in the name of its user only if the page is of an origin that is
// allowed, or of the server's own host. Without credentials it may do what everybody can do without a browser.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	const command = `{"id":1,"connect":{}}`
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		streaming(cfg)
		cfg.UniPoll.Enabled, cfg.SockJS.Enabled = true, true
		cfg.Client.AllowedOrigins, cfg.Client.UserIDHTTPHeader = []string{"https://app.example"}, "X-User"
	})
	get := "?cf_connect=" + url.QueryEscape(command)
	requests := map[string]struct{ method, path, body string }{
		"http_stream":     {"POST", "/connection/http_stream", command},
		"sse by POST":     {"POST", "/connection/sse", command},
		"sse":             {"GET", "/connection/sse" + get, ""},
		"uni_http_stream": {"POST", "/connection/uni_http_stream", "{}"},
		"uni_sse by POST": {"POST", "/connection/uni_sse", "{}"},
		"uni_sse":         {"GET", "/connection/uni_sse?cf_connect=%7B%7D", ""},
		"uni_poll":        {"POST", "/connection/uni_poll", "no JSON"}, // which is answered at once
		"emulation":       {"POST", "/emulation", `{"node":"n","session":"s","data":"{}"}`},
		"SockJS":          {"POST", "/connection/sockjs/0/%d/xhr", ""},
		"SockJS by GET":   {"GET", "/connection/sockjs/0/%d/eventsource", ""},
	}
	for i, tt := range []struct {
		fields  string // without credentials
		foreign bool
	}{
		{"", false}, // no browser
		{"Sec-Fetch-Site: same-origin, Sec-Fetch-Mode: cors", false},
		{"Origin: https://app.example, Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: cors", false},
		{"Origin: https://evil.example, Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: no-cors", true},
		{"Origin: https://evil.example, Sec-Fetch-Site: same-origin", true}, // which no browser sends
		{"Origin: https://evil.example", true},
		{"Origin: null", true},
		{"Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: no-cors", true},
		{"Sec-Fetch-Site: same-site, Sec-Fetch-Mode: no-cors", true},
		{"Sec-Fetch-Site: cross-site, Sec-Fetch-Mode: navigate", true},
		{"Sec-Fetch-Site: none, Sec-Fetch-Mode: navigate", true}, // a link in a mail
	} {
		for name, r := range requests {
			for j, credentials := range []string{"", "Cookie: session=1", "X-User: ann", "Authorization: Basic YTpi"} {
				path := r.path
				if strings.Contains(path, "sockjs") {
					path = fmt.Sprintf(path, 10*i+j)
				}
				req := s.newRequest(r.method, path, r.body)
				for _, list := range []string{tt.fields, credentials} {
					for field := range strings.SplitSeq(list, ", ") {
						if name, value, ok := strings.Cut(field, ": "); ok {
							req.Header.Set(name, value)
						}
					}
				}
				refused := tt.foreign && (credentials != "" || strings.Contains(path, "sockjs"))
				if status := statusOf(t, req); (status == http.StatusForbidden) != refused {
					t.Errorf("%s, %q, %q: %d", name, tt.fields, credentials, status)
				}
			}
		}
	}
	s.awaitLog("connection refused: its origin is not allowed", `"key":"client.allowed_origins"`)
	own := s.newRequest("POST", "/connection/http_stream", command, "Origin", s.url(""), "Cookie", "a=1")
	if status := statusOf(t, own); status != http.StatusOK {
		t.Errorf("a page of the server's own host gets %d", status)
	}
}

func statusOf(t *testing.T, req *http.Request) int {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestFramesOfOthers: pages of other origins may embed the page of SockJS that looks at their origin itself, and no session.
func TestFramesOfOthers(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.SockJS.Enabled, cfg.SockJS.URL = true, "https://cdn.example/sockjs.js"
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
	})
	for path, want := range map[string]int{"/connection/sockjs/iframe.html": http.StatusOK, "/connection/sockjs/0/a/eventsource": http.StatusForbidden} {
		req := s.newRequest("GET", path, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Referer", "https://app.example/page")
		if status := statusOf(t, req); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}
