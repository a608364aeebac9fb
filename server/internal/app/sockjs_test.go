package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/internal/config"
)

// sockJS is a SockJS client by polling.
type sockJS struct {
	s      *testServer
	id     string
	header http.Header
	got    []string // messages that were not returned yet
}

// post sends a request below the session, with a body, and returns the answer.
func (c *sockJS) post(kind, body string) (status int, answer string, header http.Header) {
	c.s.t.Helper()
	req := must(http.NewRequestWithContext(c.s.t.Context(), http.MethodPost, c.s.url("/connection/sockjs/0/"+c.id+"/"+kind), strings.NewReader(body)))
	req.Header = c.header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.s.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode, string(must(io.ReadAll(res.Body))), res.Header
}

func (c *sockJS) send(commands ...string) {
	c.s.t.Helper()
	if status, _, _ := c.post("xhr_send", string(must(json.Marshal(commands)))); status != http.StatusNoContent {
		c.s.t.Fatalf("xhr_send: %d", status)
	}
}

// next returns the next reply or push.
func (c *sockJS) next() string {
	c.s.t.Helper()
	for len(c.got) == 0 {
		status, frame, _ := c.post("xhr", "")
		if status != http.StatusOK {
			c.s.t.Fatalf("%d %s", status, frame)
		}
		frame = strings.TrimSuffix(frame, "\n")
		var messages []string
		if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "a")), &messages); err != nil {
			return frame
		}
		for _, m := range messages {
			c.got = append(c.got, strings.Split(m, "\n")...)
		}
	}
	m := c.got[0]
	c.got = c.got[1:]
	return m
}

// TestSockJS: commands, replies, pushes and a disconnect by polling; limits and origins.
func TestSockJS(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everyOneWay(cfg)
		cfg.SockJS.Enabled, cfg.Client.ConnectionLimit = true, 1
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
	})
	c := &sockJS{s: s, id: "one", header: http.Header{"Origin": {"https://app.example"}}}
	if got := c.next(); got != "o" {
		t.Fatal(got)
	}
	c.send(`{"id":1,"connect":{`+s.tokenField(jwt.MapClaims{"sub": "u"})+`}}`, `{"id":2,"subscribe":{"channel":"a"}}`)
	if got := c.next(); !strings.HasPrefix(got, `{"id":1,"connect":{"client":`) {
		t.Error(got)
	}
	if got := c.next(); !strings.HasPrefix(got, `{"id":2,"subscribe":{`) {
		t.Error(got)
	}
	for n := range 3 {
		s.api("publish", fmt.Sprintf(`{"channel":"a","data":{"n":%d}}`, n))
		if got, want := c.next(), fmt.Sprintf(`{"push":{"channel":"a","pub":{"data":{"n":%d}}}}`, n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	late := &sockJS{s: s, id: "two", header: c.header}
	if status, _, _ := late.post("xhr", ""); status != http.StatusServiceUnavailable {
		t.Errorf("above the limit: %d", status)
	}
	foreign := &sockJS{s: s, id: "one", header: http.Header{"Origin": {"https://evil.example"}}}
	if status, _, h := foreign.post("xhr_send", `["{}"]`); status != http.StatusForbidden || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign page sent commands: %d", status)
	}
	if status, _, h := c.post("xhr_send", `[]`); status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("%d %v", status, h)
	}
	s.api("disconnect", `{"user":"u"}`)
	if got := c.next(); got != `c[3503,"force disconnect"]` {
		t.Error(got)
	}
	for _, path := range []string{"/connection/sockjs", "/connection/sockjs/"} {
		if status, body := get(t, s.url(path)); status != http.StatusOK || body != "Welcome to SockJS!\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}
