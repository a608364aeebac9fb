package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
)

// fixture is a handler with an endpoint "secret".
type fixture struct {
	*testing.T
	settings config.Admin
	logs     bytes.Buffer
	paths    map[string]http.Handler
}

func newFixture(t *testing.T) *fixture {
	d := &fixture{T: t, settings: config.Admin{Enabled: true, Password: "open sesame", Secret: "of sessions", SessionTTL: time.Hour}}
	h, err := New(Config{
		Settings: func() *config.Admin { return &d.settings },
		Endpoints: map[string]Endpoint{"secret": {Method: http.MethodPost, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			deadline, _ := r.Context().Deadline()
			fmt.Fprint(w, "for operators ", deadline.Unix())
		})}},
		Logger: slog.New(slog.NewTextHandler(&d.logs, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.paths = h.Paths
	return d
}

// ask sends a request with the fields of header, which is name, value, ….
func (d *fixture) ask(method, path, body string, header ...string) *httptest.ResponseRecorder {
	d.Helper()
	r := httptest.NewRequest(method, "http://host"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "from" {
			r.RemoteAddr = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	path, _, _ = strings.Cut(path, "?")
	d.paths[path].ServeHTTP(w, r)
	return w
}

func (d *fixture) want(status int, w *httptest.ResponseRecorder) string {
	d.Helper()
	if w.Code != status {
		d.Errorf("status %d, expected %d: %s", w.Code, status, w.Body)
	}
	return w.Body.String()
}

// login returns a token.
func (d *fixture) login() string {
	d.Helper()
	var answer struct{ Token string }
	text := d.want(http.StatusOK, d.ask(http.MethodPost, "/admin/auth", url.Values{"password": {d.settings.Password}}.Encode()))
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Token == "" {
		d.Fatal(text, err)
	}
	return answer.Token
}

func TestLogin(t *testing.T) {
	d := newFixture(t)
	if got := d.want(200, d.ask("GET", "/admin/init", "")); got != `{"authenticated":false,"edition":"oss","insecure":false}` {
		t.Error(got)
	}
	d.want(405, d.ask("GET", "/admin/auth", ""))
	for _, body := range []string{"", "password=", "password=wrong", "password=open+sesame2"} {
		d.want(400, d.ask("POST", "/admin/auth", body, "from", "10.0.0."+fmt.Sprint(len(body))+":1"))
	}
	d.want(400, d.ask("POST", "/admin/auth", "password=open+sesame&x="+strings.Repeat("x", maxLogin)))
	multipart := "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nopen sesame\r\n--b--\r\n"
	d.want(200, d.ask("POST", "/admin/auth", multipart, "Content-Type", "multipart/form-data; boundary=b"))
	d.want(400, d.ask("POST", "/admin/auth?password=open+sesame", "")) // logs of reverse proxies have the URL
	token := d.login()
	for _, field := range []string{"token " + token, "Token  " + token, "TOKEN " + token} {
		d.want(200, d.ask("POST", "/admin/secret", "", "Authorization", field))
	}
	if got := d.want(200, d.ask("GET", "/admin/init", "", "Authorization", "token "+token)); !strings.Contains(got, `"authenticated":true`) {
		t.Error(got)
	}
	d.want(405, d.ask("GET", "/admin/secret", "", "Authorization", "token "+token))
	for _, field := range []string{"", token, "Bearer " + token, "token", "token " + token[1:], "token " + token + "A", "token " + strings.Repeat("A", len(token))} {
		if got := d.want(401, d.ask("POST", "/admin/secret", "", "Authorization", field)); got != "" {
			t.Error(got)
		}
	}
	for i := range len(token) { // any change makes it invalid
		other := byte('A')
		if token[i] == other {
			other = 'B'
		}
		d.want(401, d.ask("POST", "/admin/secret", "", "Authorization", "token "+token[:i]+string(other)+token[i+1:]))
	}
	for _, secret := range []string{"open sesame", "of sessions", token} {
		if strings.Contains(d.logs.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// TestSessionEnds: by time, and with what signs it.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		token := "token " + d.login()
		ends := time.Now().Add(time.Hour).Unix()
		if got := d.want(200, d.ask("POST", "/admin/secret", "", "Authorization", token)); got != fmt.Sprint("for operators ", ends) {
			t.Error(got)
		}
		time.Sleep(59 * time.Minute)
		d.want(200, d.ask("POST", "/admin/secret", "", "Authorization", token))
		for _, change := range []func(*config.Admin){
			func(s *config.Admin) { s.Secret = "another" }, func(s *config.Admin) { s.Password = "another" },
			func(s *config.Admin) { s.Secret = "" }, func(s *config.Admin) { s.Password = "" }, func(s *config.Admin) { s.SessionTTL = 10 * time.Second },
		} {
			before := d.settings
			change(&d.settings)
			d.want(401, d.ask("POST", "/admin/secret", "", "Authorization", token))
			d.settings = before
		}
		time.Sleep(time.Minute)
		d.want(401, d.ask("POST", "/admin/secret", "", "Authorization", token))
	})
}

func TestWithoutPassword(t *testing.T) {
	d := newFixture(t)
	d.settings.APIKey = "0123456789abcdef"
	d.want(200, d.ask("POST", "/admin/secret", "", "X-Api-Key", "0123456789abcdef"))
	d.want(401, d.ask("POST", "/admin/secret", "", "X-Api-Key", "0123456789abcdeX"))
	d.settings.APIKey = ""
	d.want(401, d.ask("POST", "/admin/secret", "", "X-Api-Key", ""))
	d.settings.Secret = ""
	d.want(400, d.ask("POST", "/admin/auth", "password=open+sesame"))
	d.settings.Secret, d.settings.Password = "s", ""
	d.want(400, d.ask("POST", "/admin/auth", "password="))
	d.settings.Insecure = true
	d.want(200, d.ask("POST", "/admin/secret", ""))
	if got := d.want(200, d.ask("GET", "/admin/init", "")); got != `{"authenticated":true,"edition":"oss","insecure":true}` {
		t.Error(got)
	}
	// Without a login, pages of other sites must not act in the name of whoever visits them.
	d.want(403, d.ask("POST", "/admin/secret", "", "Sec-Fetch-Site", "cross-site"))
	d.want(403, d.ask("POST", "/admin/secret", "", "Origin", "https://evil.example"))
	d.want(200, d.ask("POST", "/admin/secret", "", "Origin", "http://host", "Sec-Fetch-Site", "same-origin"))
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		try := func(from, password string) *httptest.ResponseRecorder {
			return d.ask("POST", "/admin/auth", url.Values{"password": {password}}.Encode(), "from", from)
		}
		for range 3 { // logins that succeed are not limited
			for range ofSource {
				d.want(200, try("10.0.0.1:1", "open sesame"))
			}
		}
		for range ofSource {
			d.want(400, try("10.0.0.1:1", "wrong"))
		}
		w := try("10.0.0.1:2", "open sesame") // not even the right one, as that would tell it from the others
		d.want(429, w)
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		d.want(200, try("10.0.0.2:1", "open sesame"))
		time.Sleep(sourceInterval)
		d.want(400, try("10.0.0.1:1", "wrong"))
		d.want(429, try("10.0.0.1:1", "wrong"))
		// A network of IPv6 is one address.
		for i := range ofSource {
			d.want(400, try(fmt.Sprintf("[2001:db8::%d]:1", i), "wrong"))
		}
		d.want(429, try("[2001:db8::ffff]:1", "wrong"))
		d.want(400, try("[2001:db8:0:1::1]:1", "wrong"))
		// Many addresses together.
		refused := 0
		for i := range 100 {
			if w := try(fmt.Sprintf("10.1.0.%d:1", i), "wrong"); w.Code == 429 {
				refused++
			}
		}
		if refused < 100-ofAll || refused > 100 {
			t.Errorf("%d of 100 refused", refused)
		}
		time.Sleep(allInterval)
		d.want(200, try("10.0.0.3:1", "open sesame"))
	})
}

// TestThrottleIsBounded: addresses are forgotten, and too many share one budget.
func TestThrottleIsBounded(t *testing.T) {
	throttle, now := newThrottle(), time.Now()
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 3 * maxSources {
		throttle.begin(source{address: address(i)}, now)
		throttle.all.left = ofAll
	}
	if n := len(throttle.sources); n > maxSources {
		t.Errorf("%d addresses", n)
	}
	if _, ok := throttle.begin(source{address: address(4 * maxSources)}, now); ok {
		t.Error("an address beyond the bound has a budget of its own")
	}
	now = now.Add(time.Minute)
	if _, ok := throttle.begin(source{address: address(4 * maxSources)}, now); !ok || len(throttle.sources) > 1 {
		t.Errorf("%t, %d addresses are left", ok, len(throttle.sources))
	}
}

// TestDevice: a browser in which somebody has logged in is not kept out by what others do, at the same address or at many.
func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		try := func(from, password string, fields ...string) *httptest.ResponseRecorder {
			return d.ask("POST", "/admin/auth", url.Values{"password": {password}}.Encode(), append(fields, "from", from)...)
		}
		w := try("10.0.0.1:1", "open sesame")
		d.want(200, w)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/admin" {
			t.Fatalf("cookies %v", cookies)
		}
		known := cookies[0].Name + "=" + cookies[0].Value
		for i := range 200 {
			try(fmt.Sprintf("10.1.0.%d:1", i), "wrong")
			try("10.0.0.1:1", "wrong")
		}
		d.want(429, try("10.0.0.1:1", "open sesame"))
		d.want(429, try("10.9.9.9:1", "open sesame"))
		d.want(200, try("10.0.0.1:1", "open sesame", "Cookie", known))
		d.want(429, try("10.0.0.1:1", "open sesame", "Cookie", cookies[0].Name+"=x"+cookies[0].Value[1:]))
		// It may guess as little as an address, and opens nothing.
		for range ofSource {
			d.want(400, try("10.0.0.1:1", "wrong", "Cookie", known))
		}
		d.want(429, try("10.0.0.1:1", "open sesame", "Cookie", known))
		d.want(401, d.ask("POST", "/admin/secret", "", "Cookie", known, "Authorization", "token "+cookies[0].Value))
		time.Sleep(sourceInterval)
		d.want(200, try("10.0.0.1:1", "open sesame", "Cookie", known))
		d.settings.Secret = "another"
		for range ofSource {
			try("10.0.0.1:1", "wrong", "Cookie", known)
		}
		d.want(429, try("10.0.0.1:1", "open sesame", "Cookie", known))
	})
}

func TestFields(t *testing.T) {
	d := newFixture(t)
	answers := map[string]*httptest.ResponseRecorder{"init": d.ask("GET", "/admin/init", ""), "secret": d.ask("POST", "/admin/secret", "")}
	for path, h := range d.paths {
		if strings.HasPrefix(path, "/admin/") {
			continue
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://host"+path, nil))
		answers[path] = w
		d.want(200, w)
	}
	for _, path := range []string{"/", "/app.js", "/app.css", "/icon.svg"} {
		if answers[path] == nil {
			t.Errorf("no %s", path)
		}
	}
	for path, w := range answers {
		h := w.Header()
		csp := h.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: %s", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Set-Cookie") != "" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
		if strings.HasPrefix(path, "/") != (h.Get("Etag") != "") {
			t.Errorf("%s: %v", path, h)
		}
	}
	page := answers["/"].Body.String()
	for _, inline := range []string{"<style", " style=", " on", "javascript:"} {
		if strings.Contains(page, inline) {
			t.Errorf("the page has %s", inline)
		}
	}
	// scripts/admin-ui.sh has the same bound.
	files, err := embedded.ReadDir("ui")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 150<<10 {
		t.Errorf("the application has %d bytes", size)
	}
}

// TestOtherUI: a directory, and a server.
func TestOtherUI(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"site/index.html": "own page", "site/sub/x.js": "own code", "secret.txt": "outside"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret.txt", filepath.Join(dir, "site", "link")); err != nil {
		t.Fatal(err)
	}
	fetch := func(c config.Admin, path string) (int, string, http.Header) {
		t.Helper()
		ui, err := newUI(&c, "/ops", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "http://host/ops"+path, nil)
		r.Header.Set("Authorization", "token of an operator")
		w := httptest.NewRecorder()
		ui.rest.ServeHTTP(w, r)
		return w.Code, w.Body.String(), w.Header()
	}
	own := config.Admin{WebPath: filepath.Join(dir, "site")}
	for path, want := range map[string]string{"/": "own page", "/sub/x.js": "own code"} {
		if status, text, header := fetch(own, path); status != 200 || text != want || header.Get("Content-Security-Policy") != ownPolicy {
			t.Errorf("%s: %d %s %v", path, status, text, header)
		}
	}
	for _, path := range []string{"/sub/", "/../secret.txt", "/link", "/none"} {
		if status, text, _ := fetch(own, path); status == 200 || strings.Contains(text, "outside") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if _, err := newUI(&config.Admin{WebPath: filepath.Join(dir, "none")}, "", slog.Default()); err == nil || !strings.Contains(err.Error(), "admin.web_path") {
		t.Error(err)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "from elsewhere ", r.URL.Path, r.Header.Get("Authorization"))
	}))
	proxied := config.Admin{WebProxyAddress: backend.URL}
	if status, text, _ := fetch(proxied, "/x"); status != 200 || text != "from elsewhere /ops/x" {
		t.Errorf("%d %s", status, text)
	}
	backend.Close()
	if status, text, _ := fetch(proxied, "/x"); status != 502 {
		t.Errorf("%d %s", status, text)
	}
}

func FuzzToken(f *testing.F) {
	s := &config.Admin{Password: "p", Secret: "s", SessionTTL: time.Hour}
	now := time.Unix(1_000_000, 0)
	valid := newToken(s, now)
	f.Add(valid)
	f.Add(valid[:10])
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := checkToken(s, text, now); ok && text != valid {
			t.Errorf("%q is accepted", text)
		}
	})
}
