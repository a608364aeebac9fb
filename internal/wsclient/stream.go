package wsclient

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// StreamReader cuts the endless stream of an HTTP response or of WebTransport into messages: lines, events, or messages
// of Protobuf behind their lengths. A message is valid until the next call.
type StreamReader struct {
	in    *bufio.Reader
	limit int // of a message, in bytes
	buf   []byte
	data  []byte // of an event
}

const keepBuffer = 8 << 10

// NewStreamReader returns a reader. A message of more than limit bytes is ErrTooBig.
func NewStreamReader(r io.Reader, limit int) *StreamReader {
	return &StreamReader{in: bufio.NewReaderSize(r, 4<<10), limit: limit}
}

// Line returns the next line, without its end, and nothing of a line that the stream ends in.
func (r *StreamReader) Line() ([]byte, error) {
	r.renew(&r.buf)
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.buf)+len(part) > r.limit+len("\r\n") {
			return nil, ErrTooBig
		}
		switch {
		case err == nil && len(r.buf) == 0:
			return bytes.TrimRight(part, "\r\n"), nil
		case err == nil:
			r.buf = append(r.buf, part...)
			return bytes.TrimRight(r.buf, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		r.buf = append(r.buf, part...)
	}
}

// Event returns the data of the next server-sent event that has data.
func (r *StreamReader) Event() ([]byte, error) {
	r.renew(&r.data)
	for {
		line, err := r.Line()
		if err != nil || len(line) == 0 {
			return bytes.TrimSuffix(r.data, []byte("\n")), err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) != "data" {
			continue
		}
		if len(r.data)+len(value) > r.limit {
			return nil, ErrTooBig
		}
		r.data = append(append(r.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
	}
}

// Delimited returns the next message of Protobuf, with its length in front.
func (r *StreamReader) Delimited() ([]byte, error) {
	r.renew(&r.buf)
	size, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, err
	}
	if size > uint64(r.limit) {
		return nil, ErrTooBig
	}
	r.buf = binary.AppendUvarint(r.buf, size)
	for left := int(size); left > 0; { // memory is taken as the bytes come
		part := min(left, 64<<10)
		start := len(r.buf)
		r.buf = append(r.buf, make([]byte, part)...)
		if _, err := io.ReadFull(r.in, r.buf[start:]); err != nil {
			return nil, err
		}
		left -= part
	}
	return r.buf, nil
}

func (r *StreamReader) renew(b *[]byte) {
	if *b = (*b)[:0]; cap(*b) > keepBuffer {
		*b = nil
	}
}
