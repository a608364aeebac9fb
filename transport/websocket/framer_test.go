package websocket

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/wstest/frametest"
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
			f := newFramer(e, deflate)
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

func inflated(message string) (string, error) {
	var b strings.Builder
	_, err := io.Copy(&b, frametest.Inflater(message))
	return b.String(), err
}
