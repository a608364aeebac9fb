package websocket

import (
	"bytes"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

type framer struct {
	encoding     protocol.Encoding
	op           byte
	deflate      *rfc6455.Deflater // nil: not negotiated
	join         bool              // several messages may share a frame
	dictionaries []transport.Dictionary
}

func newFramer(e protocol.Encoding, d *rfc6455.Deflater, join bool) *framer {
	f := &framer{encoding: e, op: rfc6455.OpText, deflate: d, join: join}
	if e == protocol.Protobuf {
		f.op = rfc6455.OpBinary
	}
	return f
}

func (f *framer) Dictionaries() []transport.Dictionary { return f.dictionaries }

func (f *framer) Encoding() protocol.Encoding { return f.encoding }

func (f *framer) Headroom() int { return rfc6455.MaxHeader }

func (f *framer) Costly() bool { return f.deflate != nil }

func (f *framer) Frame(buf []byte) []byte {
	if !f.join && bytes.IndexByte(buf[rfc6455.MaxHeader:], '\n') >= 0 {
		return f.frames(buf)
	}
	return rfc6455.Frame(buf, f.op, f.deflate)
}

// frames puts each JSON message in buf into a frame. The header is made in the place of the message before it, which has
// been copied by then.
func (f *framer) frames(buf []byte) []byte {
	const room = rfc6455.MaxHeader
	out := make([]byte, 0, len(buf)+room*bytes.Count(buf[room:], []byte{'\n'}))
	for start := room; start < len(buf); {
		end := len(buf)
		if n := bytes.IndexByte(buf[start:], '\n'); n >= 0 {
			end = start + n
		}
		out = append(out, rfc6455.Frame(buf[start-room:end:end], f.op, f.deflate)...)
		start = end + 1
	}
	return out
}
