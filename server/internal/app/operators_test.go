package app

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/config"
)

// tapped opens a tap of the server, and returns a function that reads its next event.
func (s *testServer) tapped(ctx context.Context, body string) func() observe.Tapped {
	s.t.Helper()
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, s.url("/api/trace"), strings.NewReader(body)))
	req.Header.Set("X-Api-Key", apiKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/x-ndjson" {
		s.t.Fatalf("status %d, %v", res.StatusCode, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	next := func() (e observe.Tapped) {
		s.t.Helper()
		for lines.Scan() {
			if len(lines.Bytes()) == 0 {
				continue
			}
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				s.t.Fatal(err)
			}
			return e
		}
		s.t.Fatalf("the tap has ended: %v", lines.Err())
		return e
	}
	if e := next(); e.Event != "started" {
		s.t.Fatalf("%+v", e)
	}
	return next
}

// TestTaps: the requests of operators stream what happens to a user until they are closed or the server stops, and
// nobody else's.
func TestTaps(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "open", open)
		cfg.HTTPAPI.Keys = []config.APIKey{{Name: "other", Key: "a-key-with-fewer-rights-0123456789", Methods: []string{"publish"}, Channels: []string{"*"}}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	next := s.tapped(ctx, `{"type":"user","entity":"u"}`)
	s.connect("v")
	c := s.connect("u")
	c.Subscribe("open:a", "")
	s.api("publish", `{"channel":"open:a","data":{"n":1}}`)
	for _, want := range []string{"sent connect", "received subscribe", "sent subscribe", "delivered push_publication"} {
		for {
			e := next()
			if e.User != "u" || e.Node != s.app.Node().UID() {
				t.Fatalf("%+v", e)
			}
			if e.Event+" "+e.Type == want {
				break
			}
		}
	}
	cancel()
	s.awaitLog(`"message":"tap has ended","type":"user","entity":"u"`, `"reason":"the request was closed"`)

	next = s.tapped(t.Context(), `{"type":"channel","entity":"open:a","duration":60}`)
	s.api("publish", `{"channel":"open:a","data":{"n":2}}`)
	if e := next(); e.Event != "published" || !strings.Contains(string(e.Message), `{"n":2}`) {
		t.Errorf("%+v", e)
	}
	for body, want := range map[string]string{
		`{"type":"room","entity":"a"}`:                 `"channel"`,
		`{"type":"channel"}`:                           "entity is missing",
		`{"type":"user","entity":"u","duration":1e9}`:  "duration",
		`{"type":"user","entity":"u","duration":3601}`: "3600",
		`{"type":`: "JSON",
	} {
		if status, text := s.post("/api/trace", body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	req := must(http.NewRequest(http.MethodPost, s.url("/api/trace"), strings.NewReader(`{"type":"user","entity":"u"}`)))
	req.Header.Set("X-Api-Key", "a-key-with-fewer-rights-0123456789")
	if status, text := do(t, http.DefaultClient, req); status != http.StatusForbidden {
		t.Errorf("%d %s", status, text)
	}
	ended := make(chan observe.Tapped, 1)
	go func() { ended <- next() }()
	s.stop()
	if e := <-ended; e.Event != "ended" || e.Reason != "the server stops" {
		t.Errorf("%+v", e)
	}
}

// TestLogLevelAtRunTime: operators change the level for a time, a reload for ever; refusals are counted and listed.
func TestLogLevelAtRunTime(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", nil)
	s.api("publish", `{"channel":"a","data":1}`)
	if strings.Contains(s.logged(), `"message":"request"`) {
		t.Error("there is an access log")
	}
	if answer := s.api("log_level", `{"level":"debug","duration":60}`); !strings.Contains(answer, `"level":"debug"`) {
		t.Error(answer)
	}
	s.api("publish", `{"channel":"a","data":1}`)
	s.awaitLog(`"level":"debug","message":"request","method":"POST","status":200,"path":"/api/publish"`)
	s.api("log_level", `{"level":""}`)
	if err := s.app.Reload(testConfig(func(cfg *config.Config) { cfg.Log.Level, cfg.Log.Access = "warn", true })); err != nil {
		t.Fatal(err)
	}
	s.api("broadcast", `{"channels":["a"],"data":1}`)
	s.awaitLog(`"level":"info","message":"request","method":"POST","status":200,"path":"/api/broadcast"`)
	if status, _ := s.post("/api/nothing", `{}`); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	s.connect("u").Outcome(`"subscribe":{"channel":"none:a"}`)
	if answer := s.api("refusals", ""); !strings.Contains(answer, `"kind":"subscribe refused"`) || !strings.Contains(answer, `"channel":"none:a"`) {
		t.Error(answer)
	}
}
