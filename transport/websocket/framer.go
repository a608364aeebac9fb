package websocket

import (
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// framer puts messages into WebSocket frames. The connections of a handler with the same
// encoding and compression share one.
type framer struct {
	encoding protocol.Encoding
	op       byte
	deflate  *rfc6455.Deflater // nil: not negotiated
}

func newFramer(e protocol.Encoding, d *rfc6455.Deflater) *framer {
	f := &framer{encoding: e, op: rfc6455.OpText, deflate: d}
	if e == protocol.Protobuf {
		f.op = rfc6455.OpBinary
	}
	return f
}

func (f *framer) Encoding() protocol.Encoding { return f.encoding }

func (f *framer) Headroom() int { return rfc6455.MaxHeader }

func (f *framer) Costly() bool { return f.deflate != nil }

func (f *framer) Frame(buf []byte) []byte { return rfc6455.Frame(buf, f.op, f.deflate) }
