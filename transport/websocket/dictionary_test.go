package websocket

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
)

func dictionary(t testing.TB, e protocol.Encoding, profile string, anonymous bool, data string) *Dictionary {
	t.Helper()
	d, err := NewDictionary(e, profile, anonymous, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A message becomes a binary frame: a mark, and the message or what it inflates to with the dictionary.
func TestDictionaryFrames(t *testing.T) {
	const data = `{"push":{"channel":"news","pub":{"data":{"text":"`
	f := dictionary(t, protocol.JSON, "", false, data).Framer()
	if !f.Costly() || f.Encoding() != protocol.JSON {
		t.Error("it is costly, in JSON")
	}
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 0, 400),
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(data + s) }),
			rapid.Just([]byte("{}")),
		).Draw(t, "message")
		frame, err := frametest.Read(bytes.NewReader(f.Frame(append(make([]byte, f.Headroom()), message...))))
		if err != nil || frame.Op != frametest.OpBinary || !frame.Fin || frame.Payload == "" {
			t.Fatalf("%v, %v", frame, err)
		}
		rest := []byte(frame.Payload[1:])
		switch frame.Payload[0] {
		case 0:
			if bytes.HasPrefix(message, []byte(data)) {
				t.Fatalf("%q is not compressed", message)
			}
		case 1:
			if len(rest) >= len(message) {
				t.Fatalf("%d bytes became %d", len(message), len(rest))
			}
			if rest, err = io.ReadAll(flate.NewReaderDict(bytes.NewReader(rest), []byte(data))); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("mark %d", frame.Payload[0])
		}
		if !bytes.Equal(rest, message) {
			t.Fatalf("%q became %q", message, rest)
		}
	})
}

// Clients learn the dictionary of their profile, unless they have it.
func TestDictionaryOffer(t *testing.T) {
	d := dictionary(t, protocol.JSON, "p", false, "some text")
	open := dictionary(t, protocol.Protobuf, "", true, "other text")
	if d.ID() != "uU9vElx546X_qoJv" { // by another program
		t.Errorf("ID %q", d.ID())
	}
	for _, c := range []struct {
		d    *Dictionary
		req  protocol.ConnectRequest
		user string
		want string // "": nothing, "id", "data"
	}{
		{d, protocol.ConnectRequest{Profile: "p"}, "u", "data"},
		{d, protocol.ConnectRequest{Profile: "p", Dict: "older"}, "u", "data"},
		{d, protocol.ConnectRequest{Profile: "p", Dict: d.ID()}, "u", "id"},
		{d, protocol.ConnectRequest{Profile: "p"}, "", ""},
		{d, protocol.ConnectRequest{Profile: "p", Dict: d.ID()}, "", ""},
		{d, protocol.ConnectRequest{}, "u", ""},
		{open, protocol.ConnectRequest{}, "", "data"},
		{open, protocol.ConnectRequest{Profile: "p"}, "u", ""},
	} {
		got := ""
		if o := c.d.Offer(&c.req, c.user); o != nil {
			if got = "id"; o.ID != c.d.ID() {
				t.Errorf("ID %q", o.ID)
			}
			data := o.Data
			if o.DataB64 != "" {
				data, _ = base64.StdEncoding.DecodeString(o.DataB64)
			}
			if len(data) > 0 {
				got = "data"
				if text, err := io.ReadAll(flate.NewReader(bytes.NewReader(data))); err != nil || !bytes.HasSuffix(text, []byte("text")) {
					t.Errorf("%q, %v", text, err)
				}
			}
		}
		if got != c.want {
			t.Errorf("%+v of %q: %q, want %q", c.req, c.user, got, c.want)
		}
	}
	for _, size := range []int{0, MaxDictionary + 1} {
		if _, err := NewDictionary(protocol.JSON, "", false, make([]byte, size)); err == nil {
			t.Errorf("a dictionary of %d bytes", size)
		}
	}
}
