package talk

import (
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// TestNoSecrets: a transcript shows what was said, and neither tokens nor sessions.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hush-hush"
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		for _, cmd := range []*protocol.Command{
			{ID: 1, Connect: &protocol.ConnectRequest{Token: secret, Name: "shown"}}, {ID: 1, Subscribe: &protocol.SubscribeRequest{Channel: "shown", Token: secret}},
			{ID: 1, Refresh: &protocol.RefreshRequest{Token: secret}}, {ID: 1, SubRefresh: &protocol.SubRefreshRequest{Channel: "shown", Token: secret}},
		} {
			frame, err := Frame(e, cmd, &protocol.Command{ID: 2, RPC: &protocol.RPCRequest{Method: "shown"}})
			if err != nil {
				t.Fatal(err)
			}
			if text := sent(e, frame); strings.Contains(text, secret) || !strings.Contains(text, `"token":"…"`) || !strings.Contains(text, "shown") {
				t.Errorf("%v: %s", e, text)
			}
		}
		frame, err := codec.For(e).AppendReply(nil, &protocol.Reply{ID: 1, Connect: &protocol.ConnectResult{Client: "shown", Session: secret}})
		if err != nil {
			t.Fatal(err)
		}
		if text := got(e, frame); strings.Contains(text, secret) || !strings.Contains(text, "shown") {
			t.Errorf("%v: %s", e, text)
		}
	}
	if text := sent(protocol.JSON, []byte(`{"id":1,"connect":{"token": "`+secret)); strings.Contains(text, secret) {
		t.Errorf("a frame that is cut off: %s", text)
	}
}

// TestSplit: what a server must not send is a violation, what it may send is not.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		encoding protocol.Encoding
		frame    string
		replies  int
		broken   string
	}{
		{protocol.JSON, `{}`, 1, ""},
		{protocol.JSON, "{}\n{\"id\":1,\"rpc\":{}}", 2, ""},
		{protocol.JSON, "{}\n", 0, "ends with a line break"},
		{protocol.JSON, "{}\n\n{}", 1, "not one JSON value"},
		{protocol.JSON, "{} {}", 0, "not one JSON value"},
		{protocol.JSON, "", 0, "is empty"},
		{protocol.JSON, "{\"push\":{\"channel\":\"\xff\"}}", 0, "not UTF-8"},
		{protocol.JSON, `{"id":"1"}`, 0, "cannot be decoded"},
		{protocol.Protobuf, "\x00\x02\x08\x01", 2, ""},
		{protocol.Protobuf, "\x05\x08", 0, "cannot be decoded"},
		{protocol.Protobuf, "", 0, "is empty"},
	} {
		conn := &Conn{Encoding: c.encoding, codec: codec.ForClient(c.encoding), dialer: &Dialer{Dialer: new(wire.Dialer)}}
		replies, broken := conn.split([]byte(c.frame))
		text := ""
		if broken != nil {
			text = broken.Text
		}
		if len(replies) != c.replies || (broken == nil) != (c.broken == "") || !strings.Contains(text, c.broken) {
			t.Errorf("%v %q: %d replies, %q; expected %d, %q", c.encoding, c.frame, len(replies), text, c.replies, c.broken)
		}
	}
}
