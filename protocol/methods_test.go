package protocol_test

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
)

// message is a command or a reply.
type message interface{ AppendProto(dst []byte) []byte }

// TestRedacted: no secret of a command or a reply is in its redacted copy, and the original keeps it.
func TestRedacted(t *testing.T) {
	const secret = "a-secret"
	subs := map[string]*protocol.SubscribeRequest{"ch": {Token: secret, Data: []byte("1")}, "none": nil}
	for name, m := range map[string][2]message{
		"connect": pair(&protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{
			Token: secret, Headers: map[string]string{"cookie": secret, "empty": ""}, Subs: subs, Name: "seen"}}),
		"subscribe": pair(&protocol.Command{ID: 1, Subscribe: &protocol.SubscribeRequest{Channel: "seen", Token: secret}}),
		"refresh":   pair(&protocol.Command{ID: 1, Refresh: &protocol.RefreshRequest{Token: secret}}),
		"track": pair(&protocol.Command{ID: 1, SubRefresh: &protocol.SubRefreshRequest{
			Channel: "seen", Token: secret, Track: []*protocol.TrackBatch{{Signature: secret}}}}),
		"connected": reply(&protocol.Reply{ID: 1, Connect: &protocol.ConnectResult{Client: "seen", Session: secret}}),
		"one-way":   reply(&protocol.Reply{Push: &protocol.Push{Connect: &protocol.Connect{Client: "seen", Session: secret}}}),
	} {
		original, redacted := string(m[0].AppendProto(nil)), string(m[1].AppendProto(nil))
		if strings.Contains(redacted, secret) || !strings.Contains(redacted, "***") || !strings.Contains(original, secret) {
			t.Errorf("%s: %q became %q", name, original, redacted)
		}
		if strings.Contains(original, "seen") != strings.Contains(redacted, "seen") {
			t.Errorf("%s: %q hides more than secrets: %q", name, original, redacted)
		}
	}
	if m := (&protocol.Command{ID: 7, Subscribe: &protocol.SubscribeRequest{Channel: "ch"}}).Redacted(); m.Subscribe.Token != "" {
		t.Errorf("a token that is not there became %q", m.Subscribe.Token)
	}
}

func pair(c *protocol.Command) [2]message {
	return [2]message{c, c.Redacted()}
}

func reply(r *protocol.Reply) [2]message {
	return [2]message{r, r.Redacted()}
}

// TestMethods: a command and its reply have the method of their request and result; what has none has no channel either.
func TestMethods(t *testing.T) {
	for m := protocol.NoMethod + 1; m < protocol.NumMethods; m++ {
		var c protocol.Command
		var r protocol.Reply
		text := []byte(`{"id":1,"` + m.String() + `":{"channel":"ch"}}`)
		if err := c.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if c.Method() != m {
			t.Errorf("%s: the command has the method %q", m, c.Method())
		}
		if err := r.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		if r.Method() != m && m != protocol.MethodSend { // has no reply
			t.Errorf("%s: the reply has the method %q", m, r.Method())
		}
	}
	ping := protocol.Command{ID: 1, Ping: &protocol.PingRequest{}}
	if ping.Method() != protocol.NoMethod || ping.Channel() != "" || ping.Method().String() != "" {
		t.Errorf("a ping has the method %q", ping.Method())
	}
	if ch := (&protocol.Command{Publish: &protocol.PublishRequest{Channel: "ch"}}).Channel(); ch != "ch" {
		t.Errorf("channel %q", ch)
	}
}
