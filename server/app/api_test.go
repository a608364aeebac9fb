package app

import "testing"

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
