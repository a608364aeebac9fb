package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gyrohq/gyro/protocol"
)

type body struct {
	chunked  bool
	events   bool
	encoding protocol.Encoding

	left    int    // bytes of the chunk that are still to come
	inChunk bool   // the CRLF of the chunk is still to come
	message []byte // the start of an incomplete message
}

const maxChunkHead = 4 << 10

var (
	errChunk = errors.New("the server sends a malformed chunk")
	errLarge = fmt.Errorf("the server sends a chunk or a message of more than %d bytes, which is the limit", maxFrame)
)

// consume handles the complete messages of data and returns the bytes that it needs again: the start of a chunk's head.
// At the end of the body it returns io.EOF.
func (b *body) consume(data []byte, handle func([]byte) error) (rest []byte, err error) {
	if !b.chunked {
		return nil, b.take(data, handle)
	}
	for len(data) > 0 {
		var n int
		switch {
		case b.left > 0:
			n = min(b.left, len(data))
			b.left -= n
			err = b.take(data[:n], handle)
		case b.inChunk:
			n, err = chunkEnd(data)
			b.inChunk = n == 0
		default:
			b.left, n, err = chunkHead(data)
			b.inChunk = n > 0
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return data, nil
		}
		data = data[n:]
	}
	return nil, nil
}

// chunkHead reads the line before a chunk, which has n bytes; 0: it is not complete. At the last chunk it returns
// io.EOF.
func chunkHead(data []byte) (size, n int, err error) {
	n = bytes.IndexByte(data[:min(len(data), maxChunkHead)], '\n') + 1
	if n == 0 {
		if len(data) >= maxChunkHead {
			err = errChunk
		}
		return 0, 0, err
	}
	line, ok := bytes.CutSuffix(data[:n], []byte("\r\n"))
	digits, _, _ := bytes.Cut(bytes.TrimRight(line, " \t"), []byte(";"))
	v, err := strconv.ParseUint(string(digits), 16, 64)
	switch {
	case !ok || bytes.IndexByte(line, '\r') >= 0 || len(digits) > maxDigits || err != nil:
		return 0, 0, fmt.Errorf("%w: a chunk of the size %q", errChunk, digits[:min(len(digits), 2*maxDigits)])
	case v > maxFrame:
		return 0, 0, fmt.Errorf("%w: a chunk of the size %q", errLarge, digits)
	case v == 0:
		return 0, 0, io.EOF
	}
	return int(v), n, nil
}

const maxDigits = 16

// chunkEnd reads the line end behind a chunk, which has n bytes; 0: it is not complete.
func chunkEnd(data []byte) (n int, err error) {
	const end = "\r\n"
	switch {
	case len(data) < len(end):
		return 0, nil
	case string(data[:len(end)]) != end:
		return 0, errChunk
	}
	return len(end), nil
}

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
		return errLarge
	case len(rest) == 0:
		b.message = nil
	case n > 0 || len(b.message) == 0:
		b.message = append([]byte(nil), rest...)
	}
	return nil
}

// messages returns the size of the complete messages. Messages without envelopes go to handle together.
func (b *body) messages(data []byte, handle func([]byte) error) (n int, err error) {
	switch {
	case b.events:
		return eachEvent(data, handle)
	case b.encoding == protocol.JSON:
		n = bytes.LastIndexByte(data, '\n') + 1
	default:
		n, err = delimited(data)
	}
	if n == 0 {
		return 0, err
	}
	return n, cmp.Or(handle(data[:n]), err)
}

func delimited(data []byte) (n int, err error) {
	for {
		size, k := binary.Uvarint(data[n:])
		if k < 0 || size > maxFrame {
			return n, errLarge
		}
		if k == 0 || uint64(len(data)-n-k) < size {
			return n, nil
		}
		n += k + int(size)
	}
}

// eachEvent needs no other fields: the server puts each message into one line of an event.
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
