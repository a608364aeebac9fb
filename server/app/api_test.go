package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/server/config"
)

// TestAPISession: a command that addresses a session that nobody has does nothing, which
// is no error; the session ID, a secret, is not logged.
func TestAPISession(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "debug", nil)
	const session = "0b44c1f5-98d3-4e4a-9f1a-6d8b3f0a7c2e"
	s.secrets = append(s.secrets, session)
	c := s.connect("u")
	for _, method := range []string{"subscribe", "unsubscribe", "disconnect", "refresh"} {
		s.api(method, `{"user":"u","channel":"a","session":"`+session+`"}`)
	}
	s.api("subscribe", `{"user":"u","channel":"a","session":""}`)
	if p := c.Push(); p.Subscribe == nil || p.Channel != "a" {
		t.Errorf("got %+v", p)
	}
}

// TestAPIWhom: commands are for the connections of a user, which client and session narrow; without a user they are for
// anonymous ones. Codes that no client can get are refused, and the client stays.
func TestAPIWhom(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", func(c *config.Config) { c.Client.AllowAnonymousConnect = true })
	c := s.dial(nil)
	named := c.Connect(s.tokenField(jwt.MapClaims{"sub": "u"})).Client
	for _, code := range []string{`{}`, `{"code":5}`, `{"code":2999}`, `{"code":70000}`} {
		if status, answer := s.post("/api/disconnect", `{"user":"u","disconnect":`+code+`}`); status != http.StatusOK || !strings.Contains(answer, `"code":107`) {
			t.Errorf("%s: %d %s", code, status, answer)
		}
	}
	s.awaitLog("the code of a disconnect is from 3000 to 4999, not 5")
	anonymous := s.dial(nil)
	id := anonymous.Connect("").Client
	s.api("disconnect", `{"client":"`+named+`"}`)
	s.api("disconnect", `{"user":"u","client":"`+id+`"}`)
	s.api("disconnect", `{"client":"`+id+`"}`)
	if d := anonymous.Disconnected(); d.Code != 3503 {
		t.Errorf("disconnected with %v", d)
	}
	s.api("disconnect", `{"user":"u","disconnect":{"code":4500,"reason":"bye"}}`)
	if d := c.Disconnected(); d.Code != 4500 {
		t.Errorf("disconnected with %v", d)
	}
}
