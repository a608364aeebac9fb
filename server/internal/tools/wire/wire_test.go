package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/protocol"
)

// FuzzConsume: frames come out the same however the bytes are cut, and no input harms.
func FuzzConsume(f *testing.F) {
	long := binary.BigEndian.AppendUint64([]byte{0x82, 127}, 70_000)
	f.Add(append(long, make([]byte, 70_000)...), uint16(1000))
	f.Add([]byte("\x81\x02hi\x01\x01a\x80\x01b\x8a\x00\x88\x02\x0b\xb8"), uint16(1))
	f.Add([]byte("\x82\x7e\x00\x03abc\x81\xff"), uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint16) {
		read := func(step int) (messages [][]byte, failure string) {
			var c Conn
			for rest := data; len(rest) > 0; {
				dst := c.space()
				n := copy(dst[:min(len(dst), step)], rest)
				rest = rest[n:]
				if err := c.took(n, func(m []byte) error {
					messages = append(messages, bytes.Clone(m))
					return nil
				}); err != nil {
					return messages, err.Error()
				}
			}
			return messages, ""
		}
		if slices.ContainsFunc(data, func(b byte) bool { return b&0x0f == 9 }) {
			return // a ping is answered, and there is no connection
		}
		whole, failure := read(readSize)
		cut, cutFailure := read(1 + max(int(step), len(data)/256))
		if failure != cutFailure || !slices.EqualFunc(whole, cut, bytes.Equal) {
			t.Errorf("%d messages (%s), cut %d (%s)", len(whole), failure, len(cut), cutFailure)
		}
	})
}

// serving starts a server that hands over what it reads first, and answers with
// frames.
func serving(t *testing.T, secure bool, answer ...ws.Frame) (url string, first <-chan ws.Frame) {
	t.Helper()
	got := make(chan ws.Frame, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u := ws.HTTPUpgrader{Protocol: func(string) bool { return true }}
		conn, _, _, err := u.Upgrade(r, w)
		if err != nil {
			return
		}
		defer conn.Close()
		f, err := ws.ReadFrame(conn)
		if err != nil {
			return
		}
		got <- ws.UnmaskFrame(f)
		for _, f := range answer {
			_ = ws.WriteFrame(conn, f)
		}
		_, _ = io.Copy(io.Discard, conn) // a reset would overtake the answer
	}))
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http"), got
}

// TestConn sends commands, and gets whole messages and the reason of the end.
func TestConn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		encoding protocol.Encoding
		secure   bool
		op       ws.OpCode
		sent     string
	}{
		"JSON":          {protocol.JSON, false, ws.OpText, "{\"id\":1,\"connect\":{}}\n{}"},
		"JSON over TLS": {protocol.JSON, true, ws.OpText, "{\"id\":1,\"connect\":{}}\n{}"},
		"Protobuf":      {protocol.Protobuf, false, ws.OpBinary, "\x04\x08\x01\x22\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := bytes.Repeat([]byte("x"), 2*readSize)
			url, first := serving(t, want.secure,
				ws.NewTextFrame([]byte("whole")), ws.NewFrame(ws.OpText, false, []byte("in ")), ws.NewPingFrame(nil),
				ws.NewFrame(ws.OpContinuation, true, []byte("two")), ws.NewBinaryFrame(long),
				ws.NewCloseFrame(ws.NewCloseFrameBody(3008, "slow")),
			)
			c, err := (&Dialer{URL: url, Encoding: want.encoding, TLS: &tls.Config{InsecureSkipVerify: true}}).Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Cut()
			c.Expect(0)
			if err := c.Send(&protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{}}, &protocol.Command{}); err != nil {
				t.Fatal(err)
			}
			var messages []string
			err = c.Serve(func(m []byte) error {
				messages = append(messages, string(m))
				return nil
			})
			var closed *CloseError
			if !errors.As(err, &closed) || closed.Code != 3008 || closed.Reason != "slow" {
				t.Errorf("ended with %v", err)
			}
			if !slices.Equal(messages, []string{"whole", "in two", string(long)}) {
				t.Errorf("%d messages", len(messages))
			}
			if f := <-first; f.Header.OpCode != want.op || string(f.Payload) != want.sent {
				t.Errorf("sent %v %q, want %v %q", f.Header.OpCode, f.Payload, want.op, want.sent)
			}
		})
	}
}

// TestExpect: a server that says nothing ends the connection in time.
func TestExpect(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		url, _ := serving(t, secure)
		c, err := (&Dialer{URL: url, TLS: &tls.Config{InsecureSkipVerify: true}}).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Cut()
		c.Expect(1)
		var timeout net.Error
		if err := c.Serve(func([]byte) error { return nil }); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("ended with %v", err)
		}
	}
}

func TestFirstMessage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		e           protocol.Encoding
		frame, want string
	}{
		{protocol.JSON, "{}\n{}", "{}\n"},
		{protocol.JSON, "{}", "{}"},
		{protocol.Protobuf, "\x02ab\x01c", "\x02ab"},
		{protocol.Protobuf, "\x00\x01c", "\x00"},
		{protocol.Protobuf, "\x05ab", "\x05ab"}, // malformed
		{protocol.Protobuf, "\xff", "\xff"},
		{protocol.Protobuf, "", ""},
	} {
		if got := FirstMessage(test.e, []byte(test.frame)); string(got) != test.want {
			t.Errorf("%s %q: %q, want %q", test.e, test.frame, got, test.want)
		}
	}
}

func TestMemo(t *testing.T) {
	t.Parallel()
	m := NewMemo[int](1000)
	message, large := []byte("seven"), make([]byte, 1001)
	seven := 7
	if got := m.Keep(message, &seven); got != &seven || m.Find([]byte("seven")) != &seven {
		t.Error("forgot what it kept")
	}
	message[0] = 'S'
	if m.Find([]byte("seven")) != &seven || m.Find(message) != nil {
		t.Error("took the caller's bytes")
	}
	if m.Keep(large, &seven); m.Find(large) != nil {
		t.Error("keeps what is too large")
	}
	var none *Memo[int]
	if none.Keep(message, &seven) != &seven || none.Find(message) != nil {
		t.Error("a nil memo remembers")
	}
}
