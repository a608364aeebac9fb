package websocket

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

var _ transport.Framer = (*framer)(nil)

func testText(n int) string { return strings.Repeat("a chat message, ", n/16+1)[:n] }

func TestFramer(t *testing.T) {
	long := testText(1000)
	for _, deflate := range []*rfc6455.Deflater{nil, rfc6455.NewDeflater(1, 0)} {
		for e, op := range map[protocol.Encoding]byte{protocol.JSON: rfc6455.OpText, protocol.Protobuf: rfc6455.OpBinary} {
			f := newFramer(e, deflate, true)
			if f.Encoding() != e || f.Costly() != (deflate != nil) {
				t.Errorf("%v: encoding %v, costly %v", e, f.Encoding(), f.Costly())
			}
			got, err := frametest.Read(bytes.NewReader(f.Frame(append(make([]byte, f.Headroom()), long...))))
			if err == nil && got.RSV1 {
				got.Payload, err = inflated(got.Payload)
			}
			if want := (frametest.Frame{Fin: true, RSV1: deflate != nil, Op: op, Payload: long}); err != nil || got != want {
				t.Errorf("%v: got %v, %v", e, got, err)
			}
		}
	}
}

// Without joins each message has a frame of its own, whatever it is.
func TestFramerDoesNotJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var deflate *rfc6455.Deflater
		if rapid.Bool().Draw(t, "deflate") {
			deflate = rfc6455.NewDeflater(1, 0)
		}
		f := newFramer(protocol.JSON, deflate, false)
		messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			size := rapid.SampledFrom([]int{2, 3, 125, 126, 127, 70000}).Draw(t, "size")
			return strings.Repeat(rapid.StringMatching(`[a-z]`).Draw(t, "letter"), size)
		}), 1, 5).Draw(t, "messages")
		r := bytes.NewReader(f.Frame(append(make([]byte, f.Headroom()), strings.Join(messages, "\n")...)))
		for _, want := range messages {
			got, err := frametest.Read(r)
			if err == nil && got.RSV1 {
				got.Payload, err = inflated(got.Payload)
			}
			if err != nil || got.Payload != want || got.Op != rfc6455.OpText || !got.Fin {
				t.Fatalf("got %.100v, %v, want %.100s", got, err, want)
			}
		}
		if r.Len() > 0 {
			t.Fatalf("%d bytes too many", r.Len())
		}
	})
}

func inflated(message string) (string, error) {
	var b strings.Builder
	_, err := io.Copy(&b, frametest.Inflater(message))
	return b.String(), err
}
