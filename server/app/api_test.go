package app

import (
	"strings"
	"testing"
)

// TestAPISession: commands that address a connection by its session are refused, as no
// connection has one yet; the session ID, a secret, is not logged.
func TestAPISession(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", nil)
	s.secrets = append(s.secrets, "session-of-the-tests")
	s.connect("u")
	for _, method := range []string{"subscribe", "unsubscribe", "disconnect", "refresh"} {
		_, answer := s.post("/api/"+method, `{"user":"u","channel":"a","session":"session-of-the-tests"}`)
		if answer != `{"error":{"code":108,"message":"not available"}}` {
			t.Errorf("%s: %s", method, answer)
		}
		if line := `"method":"` + method + `"`; !strings.Contains(s.logged(), line) {
			t.Errorf("the refusal of %s is not logged", method)
		}
		s.api(method, `{"user":"u","channel":"a","session":""}`)
	}
}
