package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
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
	if got := s.explained(`{"user":"ann"}`); !strings.Contains(got.Findings[len(got.Findings)-1].Text, "connect refused: ") {
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

// Channels of a connect command that the server leaves out, or refuses the client for, are explained to whoever asks for
// the user.
func TestExplainChannelsOfConnect(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(c *config.Config) { addNamespace(c, "chat", func(*config.ChannelOptions) {}) })
	token := s.tokenField(jwt.MapClaims{"sub": "ann"})
	for _, tt := range []struct{ channel, outcome, text, key string }{
		{"nowhere:1", "disconnect 3501", " in nowhere:1: channel of a connect command refused: ", "channel.namespaces"},
		{"chat:1", "ok", " in chat:1: channel of a connect command ignored: allow_subscribe_for_client is off", "channel.namespaces[chat].allow_subscribe_for_client"},
	} {
		if got, _ := s.dial(nil).Outcome(`"connect":{` + token + `,"subs":{"` + tt.channel + `":{}}}`); got != tt.outcome {
			t.Errorf("%s: %s", tt.channel, got)
		}
		got := s.explained(`{"user":"ann","channel":"` + tt.channel + `"}`)
		if f := got.Findings[0]; f.Level != "problem" || !strings.Contains(f.Text, tt.text) || f.Key != tt.key || f.Client == "" {
			t.Errorf("%s: %+v", tt.channel, got.Findings)
		}
	}
}

// The recorder can be turned off, and connections can be found by their labels.
func TestConnectionsAPI(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(c *config.Config) { c.Flight.Disabled = true })
	for _, plan := range []string{"free", "paid"} {
		s.dial(nil).Connect(s.tokenField(jwt.MapClaims{"sub": plan, "jti": "of " + plan, "iat": 1700000000, "labels": map[string]any{"plan": plan}}))
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
	if got := s.api("connections", `{"expression":"labels.plan == 'paid' && connection_token.uid == 'of paid'"}`); strings.Count(got, `"user":"paid"`) != 1 ||
		!strings.Contains(got, `"connection_token":{"uid":"of paid","issued_at":1700000000}`) || strings.Contains(got, `"free"`) {
		t.Error(got)
	}
	if _, got := s.post("/api/connections", `{"expression":"user =="}`); !strings.Contains(got, `"code":107,"message":"bad request: expression \"user ==\": line 1, column 8: `) {
		t.Error(got)
	}
	if status, got := s.post("/api/snapshot", `{"expression":"user == 'free'"}`); status != http.StatusOK || strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, `"user":"free"`) || !strings.Contains(got, `{"summary":{"connections":1,"nodes":{"`+s.app.node.UID()+`":1}}}`) {
		t.Errorf("%d %s", status, got)
	}
	if status, _ := s.post("/api/connections", `{"label_filter":{"cmp":"what"}}`); status != http.StatusOK {
		t.Error(status)
	}
}

// The client's RPC, the server and the server API keep when a user was there.
func TestUserStatus(t *testing.T) {
	t.Parallel()
	off := startServer(t, nil)
	if _, got := off.post("/api/get_user_status", `{"users":["ann"]}`); got != `{"error":{"code":108,"message":"not available"}}` {
		t.Error(got)
	}
	s := startServer(t, func(c *config.Config) { c.UserStatus.Enabled = true })
	ann := s.dial(nil)
	ann.Connect(s.tokenField(jwt.MapClaims{"sub": "ann"}))
	status := func() (a api.UserStatus) {
		t.Helper()
		var res api.GetUserStatusResult
		got := s.api("get_user_status", `{"users":["ann"]}`)
		if err := res.UnmarshalJSON([]byte(strings.TrimSuffix(strings.TrimPrefix(got, `{"result":`), "}"))); err != nil || len(res.Statuses) != 1 {
			t.Fatalf("%s: %v", got, err)
		}
		return res.Statuses[0]
	}
	wait.Until(t, "ann to be online", func() bool { return status().Online > 0 })
	if a := status(); a.Active != 0 {
		t.Errorf("before the first activity: %+v", a)
	}
	ann.Do(`"rpc":{"method":"update_user_status"}`)
	if a := status(); a.Active < time.Now().Unix()-60 || a.State != "" {
		t.Errorf("after an activity: %+v", a)
	}
	if got := s.api("update_user_status", `{"users":["ann","bob"],"state":"away"}`); got != `{"result":{}}` {
		t.Error(got)
	}
	if got := s.api("batch", `{"commands":[{"get_user_status":{"users":["ann"]}},{"delete_user_status":{"users":["ann"]}},{"get_user_status":{"users":["ann"]}}]}`); !strings.Contains(got, `"state":"away"`) ||
		!strings.HasSuffix(got, `{"delete_user_status":{}},{"get_user_status":{"statuses":[{"user":"ann"}]}}]}`) {
		t.Error(got)
	}
	anonymous := s.dial(nil)
	anonymous.Connect(s.tokenField(jwt.MapClaims{"sub": ""}))
	if code, _ := anonymous.Outcome(`"rpc":{"method":"update_user_status"}`); code != "error 107" {
		t.Errorf("an anonymous client gets %q", code)
	}
}
