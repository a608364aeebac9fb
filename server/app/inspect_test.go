package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/config"
)

// explained asks the server to explain.
func (s *testServer) explained(request string) (res api.ExplainResult) {
	s.t.Helper()
	answer := strings.TrimSuffix(strings.TrimPrefix(s.api("explain", request), `{"result":`), "}")
	if err := res.UnmarshalJSON([]byte(answer)); err != nil {
		s.t.Fatalf("%s: %v", answer, err)
	}
	return res
}

// A user whose permission is off: the explanation names the key, and after a reload that turns it on, the same
// question has another answer.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(c *config.Config) {
		addNamespace(c, "chat", func(o *config.ChannelOptions) {
			o.HistorySize, o.HistoryTTL, o.ForceRecovery = 10, 60_000_000_000, true
		})
	})
	if got := s.explained(`{"user":"ann"}`); got.Findings[0].Level != "problem" || !strings.Contains(got.Findings[0].Text, "remember no connection") {
		t.Errorf("of nobody: %+v", got.Findings)
	}
	if status, _ := s.dial(nil).Outcome(`"connect":{"token":"nonsense"}`); status == "" {
		t.Error("a bad token was accepted")
	}
	if got := s.explained(`{"user":"ann"}`); !strings.Contains(got.Findings[len(got.Findings)-1].Text, "connection refused: ") {
		t.Errorf("after a bad token: %+v", got.Findings)
	}
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"sub": "ann", "labels": map[string]any{"plan": "free"}}) + `,"name":"js","version":"5"`)
	c.Outcome(`"subscribe":{"channel":"chat:1"}`)
	const key = "channel.namespaces[chat].allow_subscribe_for_client"
	got := s.explained(`{"user":"ann","channel":"chat:1"}`)
	if len(got.Findings) != 2 || got.Findings[0].Key != key || got.Findings[1].Key != key || got.Findings[0].Client == "" {
		t.Errorf("findings %+v", got.Findings)
	}
	if p := got.Subscribe; p.Decision != "refused" || p.Key != key || !p.Token || p.Namespace != "chat" || p.Options["history_size"] != "10" {
		t.Errorf("subscribe %+v", p)
	}
	if n := len(got.Events); n < 2 || got.Events[n-1].Kind != "refused" || got.Events[n-1].Key != key {
		t.Errorf("events %+v", got.Events)
	}
	for _, i := range got.Connections {
		if i.AppName != "js" || i.Labels["plan"] != "free" || i.Transport != "websocket" || i.Protocol != "json" {
			t.Errorf("connection %+v", i)
		}
	}
	next := *s.cfg
	next.Channel.Namespaces = nil
	addNamespace(&next, "chat", func(o *config.ChannelOptions) {
		o.AllowSubscribeForClient, o.HistorySize, o.HistoryTTL, o.ForceRecovery = true, 10, 60_000_000_000, true
	})
	if err := s.app.Reload(&next); err != nil {
		t.Fatal(err)
	}
	c.Subscribe("chat:1", "")
	if got = s.explained(`{"user":"ann","channel":"chat:1"}`); len(got.Findings) != 1 || got.Findings[0].Level != "ok" || got.Subscribe.Decision != "allowed" {
		t.Errorf("after the reload: %+v %+v", got.Findings, got.Subscribe)
	}
	if got = s.explained(`{"user":"ann","channel":"nowhere:1"}`); got.Subscribe.Key != "channel.namespaces" || got.Subscribe.Decision != "refused" {
		t.Errorf("an unknown namespace: %+v", got.Subscribe)
	}
}

// The recorder can be turned off, and connections can be found by their labels.
func TestConnectionsAPI(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(c *config.Config) { c.Flight.Disabled = true })
	for _, plan := range []string{"free", "paid"} {
		s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": plan, "labels": map[string]any{"plan": plan}}))
	}
	var answer struct {
		Result struct {
			Connections map[string]struct{ User string }
		}
	}
	if err := json.Unmarshal([]byte(s.api("connections", `{"label_filter":{"key":"plan","cmp":"eq","val":"paid"}}`)), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Result.Connections) != 1 {
		t.Errorf("%+v", answer)
	}
	for _, c := range answer.Result.Connections {
		if c.User != "paid" {
			t.Errorf("%+v", answer)
		}
	}
	if got := s.api("flight", `{}`); got != `{"result":{"events":[]}}` {
		t.Error(got)
	}
	if status, _ := s.post("/api/connections", `{"label_filter":{"cmp":"what"}}`); status != http.StatusOK {
		t.Error(status)
	}
}
