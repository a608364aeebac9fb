package webtransport

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/gyrohq/gyro/protocol"
)

// framer makes a line of a message in JSON, and puts its length before it in Protobuf. Connections of one encoding share
// one.
type framer struct{ encoding protocol.Encoding }

var framers = [2]*framer{protocol.JSON: {protocol.JSON}, protocol.Protobuf: {protocol.Protobuf}}

func (f *framer) Encoding() protocol.Encoding { return f.encoding }
func (*framer) Headroom() int                 { return 0 }
func (*framer) Costly() bool                  { return false }

func (f *framer) Frame(buf []byte) []byte {
	if f.encoding == protocol.JSON {
		return append(buf, '\n')
	}
	return buf
}

var (
	errTooLarge  = errors.New("the message is too large")
	errBadLength = errors.New("the length of a message is no varint of 64 bits")
)

// first returns the size of the first message in b, with its delimiter; 0: incomplete. Above limit bytes without the
// delimiter it is too large.
func (f *framer) first(b []byte, limit int) (int, error) {
	if f.encoding == protocol.JSON {
		switch end := bytes.IndexByte(b, '\n'); {
		case end > limit, end < 0 && len(b) > limit:
			return 0, errTooLarge
		default:
			return end + 1, nil
		}
	}
	size, n := binary.Uvarint(b)
	switch {
	case n < 0:
		return 0, errBadLength
	case n > 0 && size > uint64(limit):
		return 0, errTooLarge
	case n == 0 || uint64(len(b)-n) < size:
		return 0, nil
	}
	return n + int(size), nil
}

// whole returns the size of all complete messages at the beginning of b. There is an error only if it is 0.
func (f *framer) whole(b []byte, limit int) (size int, err error) {
	if f.encoding == protocol.JSON && len(b) <= limit {
		return bytes.LastIndexByte(b, '\n') + 1, nil
	}
	for {
		n, err := f.first(b[size:], limit)
		switch {
		case err != nil && size == 0:
			return 0, err
		case n == 0:
			return size, nil
		}
		size += n
	}
}

// missing returns how many bytes of data complete begun, a part of a message, or tell more about it.
func (f *framer) missing(begun, data []byte) int {
	if f.encoding == protocol.JSON {
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			return end + 1
		}
		return len(data)
	}
	size, n := binary.Uvarint(begun)
	if n == 0 {
		return 1
	}
	return min(len(data), n+int(size)-len(begun))
}

func (f *framer) completes(begun []byte, limit int) (bool, error) {
	if f.encoding == protocol.JSON {
		length := len(bytes.TrimSuffix(begun, []byte{'\n'}))
		if length > limit {
			return false, errTooLarge
		}
		return length < len(begun), nil
	}
	size, err := f.first(begun, limit)
	return size > 0, err
}
