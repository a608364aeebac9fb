package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gyrohq/gyro/protocol"
)

// body takes the body of an HTTP response apart.
type body struct {
	chunked  bool
	events   bool
	encoding protocol.Encoding

	left    int    // bytes of the chunk that have not come
	inChunk bool   // its CRLF has not come
	message []byte // the start of a message whose rest has not come
}

// maxChunkHead bounds the line before a chunk, in bytes.
const maxChunkHead = 256

// consume handles the complete messages of data and returns what it needs again, with the bytes
// that follow: the start of a chunk's head. At the end of the body it returns io.EOF.
func (b *body) consume(data []byte, handle func([]byte) error) (rest []byte, err error) {
	if !b.chunked {
		return nil, b.take(data, handle)
	}
	for len(data) > 0 {
		if b.left > 0 {
			n := min(b.left, len(data))
			if err := b.take(data[:n], handle); err != nil {
				return nil, err
			}
			b.left -= n
			data = data[n:]
			continue
		}
		end := bytes.Index(data, []byte("\r\n"))
		switch {
		case end < 0 && len(data) > maxChunkHead || end > maxChunkHead || b.inChunk && end > 0:
			return nil, errors.New("the server sends a malformed chunk")
		case end < 0:
			return data, nil
		case b.inChunk:
			b.inChunk = false
		default:
			if b.left, err = chunkSize(data[:end]); err != nil {
				return nil, err
			}
			if b.left == 0 {
				return nil, io.EOF
			}
			b.inChunk = true
		}
		data = data[end+2:]
	}
	return nil, nil
}

// chunkSize reads the head of a chunk.
func chunkSize(head []byte) (int, error) {
	digits, _, _ := bytes.Cut(head, []byte(";"))
	size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
	if err != nil || size > maxFrame {
		return 0, fmt.Errorf("the server sends a chunk of the size %q, the limit is %x", digits, maxFrame)
	}
	return int(size), nil
}

// take handles the complete messages of data and keeps a copy of the rest.
func (b *body) take(data []byte, handle func([]byte) error) error {
	if len(b.message) > 0 {
		b.message = append(b.message, data...)
		data = b.message
	}
	n, err := b.messages(data, handle)
	if err != nil {
		return err
	}
	switch rest := data[n:]; {
	case len(rest) > maxFrame:
		return fmt.Errorf("the server sends a message of more than %d bytes", maxFrame)
	case len(rest) == 0:
		b.message = nil
	case n > 0 || len(b.message) == 0:
		b.message = append([]byte(nil), rest...)
	}
	return nil
}

// messages handles the complete messages of data and returns their size. Those without envelopes
// go to handle together.
func (b *body) messages(data []byte, handle func([]byte) error) (n int, err error) {
	switch {
	case b.events:
		return eachEvent(data, handle)
	case b.encoding == protocol.JSON:
		n = bytes.LastIndexByte(data, '\n') + 1
	default:
		for {
			size, k := binary.Uvarint(data[n:])
			if k < 0 || size > maxFrame {
				return 0, fmt.Errorf("the server sends a message of more than %d bytes", maxFrame)
			}
			if k == 0 || uint64(len(data)-n-k) < size {
				break
			}
			n += k + int(size)
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, handle(data[:n])
}

// eachEvent handles the data of complete lines. The server puts each message into one line, so an
// event needs no more of its other fields.
func eachEvent(data []byte, handle func([]byte) error) (n int, err error) {
	for {
		end := bytes.IndexByte(data[n:], '\n')
		if end < 0 {
			return n, nil
		}
		line := data[n : n+end]
		n += end + 1
		if message, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if err := handle(bytes.TrimSpace(message)); err != nil {
				return n, err
			}
		}
	}
}
