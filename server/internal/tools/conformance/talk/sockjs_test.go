package talk

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// TestSockJS: what a session hands on of what a server sends, and how it ends.
func TestSockJS(t *testing.T) {
	t.Parallel()
	text := func(payload string) ws.Frame { return ws.NewTextFrame([]byte(payload)) }
	part := func(op ws.OpCode, end bool, payload string) ws.Frame { return ws.NewFrame(op, end, []byte(payload)) }
	huge := func(op ws.OpCode) ws.Frame {
		f := part(op, true, "o")
		f.Header.Length = messageLimit + 1
		return f
	}
	for _, c := range []struct {
		name   string
		frames []ws.Frame
		want   []string
		broken string // the violation, if there is one
	}{
		{"messages", []ws.Frame{text("o"), text("h"), text(`a["{}","[]\n"]`), text(`c[3000,"over"]`)}, []string{"{}", "[]\n"}, ""},
		{"a text in parts", []ws.Frame{
			text("o"), part(ws.OpText, false, `a["`), part(ws.OpContinuation, false, "x"), part(ws.OpContinuation, true, `y"]`), text(`c[3000,"over"]`),
		}, []string{"xy"}, ""},
		{"no o", []ws.Frame{text("h")}, nil, "is not o"},
		{"o twice", []ws.Frame{text("o"), text("o")}, nil, "second time"},
		{"an empty text", []ws.Frame{text("o"), text("")}, nil, "is empty"},
		{"more than h", []ws.Frame{text("o"), text("hh")}, nil, "behind the letter"},
		{"no list", []ws.Frame{text("o"), text("a{}")}, nil, "no list of texts"},
		{"no code", []ws.Frame{text("o"), text(`c["over"]`)}, nil, "a code and a reason"},
		{"an unknown frame", []ws.Frame{text("o"), text("x")}, nil, "unknown kind"},
		{"too much at once", []ws.Frame{huge(ws.OpText)}, nil, "more than 16777216 bytes"},
		{"too much in parts", []ws.Frame{part(ws.OpText, false, "oo"), huge(ws.OpContinuation)}, nil, "more than 16777216 bytes"},
	} {
		client, server := net.Pipe()
		go func() {
			for _, f := range c.frames {
				_ = ws.WriteFrame(server, f) // the client may have ended the connection
			}
		}()
		go func() { _, _ = io.Copy(io.Discard, server) }() // the client says why it ends the connection
		var got []string
		err := (&sockJS{wsclient.Over(client, false, messageLimit)}).Read(func(frame []byte) error {
			got = append(got, string(frame))
			return nil
		})
		server.Close()
		var broken *Violation
		var end *wire.CloseError
		switch {
		case !slices.Equal(got, c.want):
			t.Errorf("%s: %q", c.name, got)
		case c.broken == "" && (!errors.As(err, &end) || end.Code != 3000 || end.Reason != "over"):
			t.Errorf("%s: %v", c.name, err)
		case c.broken != "" && (!errors.As(err, &broken) || !strings.Contains(broken.Error(), c.broken)):
			t.Errorf("%s: %v, want %s", c.name, err, c.broken)
		}
	}
}
