package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/need"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// startDev starts a development server on a free port, and returns what it printed by its
// labels, and its address.
func startDev(t *testing.T, flags ...string) (p *process, printed map[string]string, base string) {
	t.Helper()
	p = launch(t, t.TempDir(), nil, "Ctrl-C to stop.", append([]string{"dev", "-p", "0"}, flags...)...)
	printed = make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z][A-Za-z -]*\w)  +(\S+)`).FindAllStringSubmatch(p.text(), -1) {
		printed[m[1]] = m[2]
	}
	for _, label := range []string{"Demo page", "Admin UI", "WebSocket", "HTTP stream", "SSE", "One-way", "API key", "HMAC secret", "Token"} {
		if printed[label] == "" {
			t.Fatalf("no %s in %s", label, p.text())
		}
	}
	return p, printed, strings.TrimSuffix(printed["Demo page"], "/")
}

// TestDev: what is printed works: the page, the token, the secret and the curl lines.
func TestDev(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl")
	p, printed, base := startDev(t)
	if got := status(base + "/"); got != http.StatusOK {
		t.Errorf("demo page: status %d", got)
	}
	c := wstest.Dial(t, base+"/connection/websocket", http.Header{"Origin": {base}})
	c.Connect(`"token":"` + printed["Token"] + `"`)
	c.Subscribe("chat:index", "")
	if push := c.Push(); push.Join == nil {
		t.Errorf("got %+v", push)
	}
	lines := regexp.MustCompile(`(?m)^  curl .*`).FindAllString(p.text(), -1)
	if len(lines) != 2 {
		t.Fatalf("printed %q", lines)
	}
	watched := watch(t, lines[1])
	if first := watched(); !strings.HasPrefix(first, `{"connect":`) || !strings.Contains(first, `"chat:index":`) {
		t.Errorf("the watcher is told %s", first)
	}
	if push := c.Push(); push.Join == nil {
		t.Errorf("got %+v, want the join of the watcher", push)
	}
	if answer, err := exec.Command("sh", "-c", lines[0]).CombinedOutput(); err != nil || !strings.Contains(string(answer), `"offset":1`) {
		t.Errorf("curl: %s %v", answer, err)
	}
	for text := ""; !strings.Contains(text, "Hello from the backend"); {
		text = watched()
	}
	if pub := c.Pub(); string(pub.Data) != `{"text":"Hello from the backend"}` {
		t.Errorf("got %s", pub.Data)
	}
	own, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "me"}).SignedString([]byte(printed["HMAC secret"]))
	if err != nil {
		t.Fatal(err)
	}
	wstest.Dial(t, base+"/connection/websocket", http.Header{"Origin": {"http://localhost:5173"}}).Connect(`"token":"` + own + `"`)
	password := regexp.MustCompile(`\(password (\w+)\)`).FindStringSubmatch(p.text())
	if password == nil {
		t.Fatalf("no password in %s", p.text())
	}
	login, err := http.PostForm(printed["Admin UI"]+"admin/auth", url.Values{"password": {password[1]}})
	if err != nil {
		t.Fatal(err)
	}
	login.Body.Close()
	if got := status(printed["Admin UI"]); login.StatusCode != http.StatusOK || got != http.StatusOK {
		t.Errorf("admin: login %s, page %d", login.Status, got)
	}
	p.signal(syscall.SIGHUP) // the terminal is closed
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// watch runs a command that goes on, and returns a function that reads the next line of its output.
func watch(t *testing.T, command string) func() string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+command)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the test kills it
	lines := bufio.NewReader(out)
	return func() string {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		return line
	}
}

// TestDevFlags: secrets that are given are those in use, and a page that is allowed connects.
func TestDevFlags(t *testing.T) {
	t.Parallel()
	p, printed, base := startDev(t, "--secret", "my-secret", "--api-key", "my-key", "--origin", "https://a.example", "--origin", "null")
	if printed["API key"] != "my-key" || printed["HMAC secret"] != "my-secret" {
		t.Errorf("got %s", p.text())
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "me", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte("my-secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"https://a.example", "null", "http://localhost:1"} {
		wstest.Dial(t, base+"/connection/websocket", http.Header{"Origin": {from}}).Connect(`"token":"` + token + `"`)
	}
	if got, body := request(t, http.MethodPost, base+"/api/info", "", http.Header{"X-Api-Key": {"my-key"}}); got != http.StatusOK {
		t.Errorf("API: status %d %s", got, body)
	}
	dir := t.TempDir()
	failServer(t, dir, `--origin: "a.example"`, nil, "dev", "-p", "0", "--origin", "a.example")
	failServer(t, dir, "--api-key: ", nil, "dev", "-p", "0", "--api-key", "a b")
	failServer(t, dir, `log.level: "loud"`, nil, "dev", "-p", "0", "--log.level", "loud")
	_, port, _ := strings.Cut(strings.TrimPrefix(base, "http://"), ":")
	failServer(t, dir, "gyro dev --port takes another port", nil, "dev", "-p", port)
}

// TestDevConfig: a configuration's namespaces, secret and key are in force, beside the demo page, the admin interface and the
// explanations.
func TestDevConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "config.json", `{"http_server":{"port":1,"internal_port":"9000"},"client":{"token":{"hmac_secret_key":"own-secret"}},"http_api":{"key":"own-key"},
		"channel":{"namespaces":[{"name":"ticket","allow_subscribe_for_client":true}]},"no_such":1}`)
	p := launch(t, dir, nil, "Ctrl-C to stop.", "dev", "-p", "0", "-c", "config.json")
	if text := p.text(); !strings.Contains(text, "on this machine only, with "+filepath.Join(dir, "config.json")) || !strings.Contains(text, "no_such") {
		t.Errorf("printed %s", text)
	}
	base := regexp.MustCompile(`Demo page +(http://\S+)/`).FindStringSubmatch(p.text())[1]
	if got, admin := status(base+"/"), status(base+"/admin/"); got != http.StatusOK || admin != http.StatusOK {
		t.Errorf("demo page %d, admin %d", got, admin)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "me"}).SignedString([]byte("own-secret"))
	if err != nil {
		t.Fatal(err)
	}
	c := wstest.Dial(t, base+"/connection/websocket", nil)
	c.Connect(`"token":"` + token + `"`)
	for _, ch := range []string{"ticket:1", "chat:index"} {
		c.Subscribe(ch, "")
	}
	if got, _ := request(t, http.MethodPost, base+"/api/info", "", http.Header{"X-Api-Key": {"own-key"}}); got != http.StatusOK {
		t.Errorf("API: status %d", got)
	}
	// A method that there is not is explained, too.
	got, body := request(t, http.MethodPost, base+"/api/presenc", "", http.Header{"X-Api-Key": {"own-key"}})
	if got != http.StatusNotFound || !strings.Contains(body, "the server API has no such method: did you mean presence?") {
		t.Errorf("unknown method: %d %s", got, body)
	}
	p.await("/api/presenc")
	fail := func(want string, args ...string) {
		t.Helper()
		failServer(t, dir, want, nil, append([]string{"dev", "-p", "0"}, args...)...)
	}
	fail("none.json", "-c", "none.json")
	write(t, dir, "wrong.json", `{"client":{"channel_limit":-1}}`)
	fail("client.channel_limit", "-c", "wrong.json")
}

// TestDevRefusals: each refusal is explained on the terminal, however many there are.
func TestDevRefusals(t *testing.T) {
	t.Parallel()
	p, _, base := startDev(t)
	const times = 40 // of more than 20 the log of a server would tell less
	for i := range times {
		from := fmt.Sprintf("http://evil%d.example", i)
		if other, status := wstest.Handshake(t, base+"/connection/websocket", http.Header{"Origin": {from}}); other != nil || status != http.StatusForbidden {
			t.Fatalf("another site may connect: %d", status)
		}
		p.await(from + "\n")
	}
	p.await("gyro dev --origin ORIGIN")
	if got := strings.Count(p.text(), "connection refused: its origin is not allowed\n"); got != times {
		t.Errorf("%d of %d refusals are explained", got, times)
	}
	if got, _ := request(t, http.MethodPost, base+"/api/info", "", http.Header{"X-Api-Key": {"wrong"}}); got != http.StatusUnauthorized {
		t.Errorf("wrong key: status %d", got)
	}
	c := wstest.Dial(t, base+"/connection/websocket", nil)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "me"}).SignedString([]byte("of another start"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Outcome(`"connect":{"token":"` + token + `"}`); got != "disconnect 3500" {
		t.Errorf("a token with another signature: %s", got)
	}
	p.await("gyro dev --secret SECRET")
	if text := p.await("gyro dev --api-key KEY"); strings.Contains(text, "gyro is running") {
		t.Errorf("what the announcement tells is logged as well: %s", text)
	}
}

// TestDevHosts: what browsers can read answers for names of this machine alone; backends
// may use any, they have a key.
func TestDevHosts(t *testing.T) {
	t.Parallel()
	p, printed, base := startDev(t)
	for host, want := range map[string]int{"localhost": http.StatusOK, "127.0.0.1:1": http.StatusOK, "evil.example": http.StatusForbidden} {
		for _, path := range []string{"/", "/health", "/health/live", "/health/ready", "/dev/client.js"} {
			if got, body := request(t, http.MethodGet, base+path, host, nil); got != want || want == http.StatusForbidden && !strings.Contains(body, "host name") {
				t.Errorf("%s for %s: status %d, want %d: %s", path, host, got, want, body)
			}
		}
		for _, path := range []string{"/dev/token", "/dev/publish"} {
			if got, body := request(t, http.MethodPost, base+path, host, nil); got != want {
				t.Errorf("%s for %s: status %d, want %d: %s", path, host, got, want, body)
			}
		}
		if got, body := request(t, http.MethodPost, base+"/api/info", host, http.Header{"X-Api-Key": {printed["API key"]}}); got != http.StatusOK {
			t.Errorf("API for %s: status %d: %s", host, got, body)
		}
	}
	p.await("evil.example\n")
}

// request sends a request whose body is {} for a host; empty for that of the URL.
func request(t *testing.T, method, url, host string, header http.Header) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for name, values := range header {
		r.Header[name] = values
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}
