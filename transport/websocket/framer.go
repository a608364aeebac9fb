package websocket

import "github.com/gyrohq/gyro/protocol"

// framer puts messages into WebSocket frames. A handler has one per encoding and
// compression, which all its connections share.
type framer struct {
	encoding protocol.Encoding
	op       byte
	deflate  *deflater // nil: not negotiated
}

func newFramer(e protocol.Encoding, d *deflater) *framer {
	f := &framer{encoding: e, op: opText, deflate: d}
	if e == protocol.Protobuf {
		f.op = opBinary
	}
	return f
}

func (f *framer) Encoding() protocol.Encoding { return f.encoding }

func (f *framer) Headroom() int { return maxHeader }

func (f *framer) Costly() bool { return f.deflate != nil }

// Frame writes the header right before the message, so that nothing moves. A
// compressed message is shorter and takes the place of the plain one.
func (f *framer) Frame(buf []byte) []byte {
	first := bitFin | f.op
	payload := buf[maxHeader:]
	if f.deflate != nil {
		var ok bool
		if payload, ok = f.deflate.compress(payload); ok {
			first |= bitRSV1
		}
	}
	start := maxHeader - headerSize(len(payload))
	appendHeader(buf[start:start:maxHeader], first, len(payload))
	return buf[start : maxHeader+len(payload)]
}
