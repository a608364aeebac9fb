package webtransport

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/gyrohq/gyro/protocol"
)

// framer makes the bytes of a stream of messages: in JSON each is a line, in Protobuf each comes after its length. The
// connections of one encoding share one.
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

// first returns the size of the first message in b, with its delimiter, or 0 if it is not
// complete. Above limit bytes without the delimiter it is too large, complete or not.
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

// whole returns the size of all complete messages at the beginning of b. There is an error only
// if it is 0: then the first message is wrong.
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

// missing returns how many bytes of data to append to begun, an incomplete message, to complete
// it, or to know more about it.
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

// completes reports whether begun is complete, after the bytes that missing asked for were appended.
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
