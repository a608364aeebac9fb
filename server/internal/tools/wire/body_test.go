package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
)

// FuzzBody: however the bytes of a body are cut, its messages and its end are those of a simple reader
// behind the one of net/http.
func FuzzBody(f *testing.F) {
	const lines, events, delimited = 0, 1, 2
	f.Add("5\r\n{}\n{}\r\n1;ext=1\r\n\n\r\n0\r\n\r\n", true, byte(lines), uint16(1))
	f.Add("B \t\r\ndata: {}\n\n\n\r\n0\r\n\r\n", true, byte(events), uint16(3))
	f.Add("3\r\n\x02ab\r\n5\r\n\x00\xff\x01xx\r\n", true, byte(delimited), uint16(2))
	f.Add("\r\nretry: 7\nid:1\ndata:a\ndata: b \n\nda", false, byte(events), uint16(5))
	f.Add("\x01a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", false, byte(delimited), uint16(9))
	f.Add("{}\n\n{\"a\":1}\nrest", false, byte(lines), uint16(4))
	for _, broken := range []string{
		"3\r\n{}\nx\r\n", "g\r\n", "\r\n", "3\n{}\n", "3\r\r\n{}\n", "3;a\rb\r\n{}\n", " 3\r\n{}\n", "3 ;a\r\n{}\n", "-3\r\n", "0x3\r\n",
		"4000001\r\n", "00000000000000003\r\n{}\n", "3;" + strings.Repeat("x", maxChunkHead) + "\r\n{}\n", "ffffffffffffffff\r\n",
	} {
		f.Add(broken, true, byte(lines), uint16(7))
	}
	f.Fuzz(func(t *testing.T, data string, chunked bool, format byte, step uint16) {
		b := &body{chunked: chunked, events: format%3 == events}
		if format%3 == delimited {
			b.encoding = protocol.Protobuf
		}
		got, err := b.cut([]byte(data), 1+max(int(step), len(data)/256))
		payload, want := readBody(t, data, chunked)
		messages, malformed := b.split(payload)
		switch large := errors.Is(err, errLarge); {
		case large && !malformed && want == nil:
			return // net/http has no limit
		case malformed != large, !malformed && !errors.Is(err, want):
			t.Errorf("ends with %v, net/http says %v", err, want)
		}
		if !slices.Equal(got, messages) {
			t.Errorf("%d messages %q, want %d %q", len(got), got, len(messages), messages)
		}
	})
}

// cut consumes data in parts of step bytes, and returns the messages; lines and delimited messages, which
// come together, as one text. err is nil if the body goes on.
func (b *body) cut(data []byte, step int) (messages []string, err error) {
	var together strings.Builder
	var held []byte
	for len(data) > 0 && err == nil {
		n := min(step, len(data))
		held, err = b.consume(append(bytes.Clone(held), data[:n]...), func(m []byte) error {
			if messages = append(messages, string(m)); !b.events {
				together.Write(m)
			}
			return nil
		})
		data = data[n:]
	}
	if !b.events {
		messages = []string{together.String()}
	}
	return messages, err
}

// readBody returns the payload of a body, and how it ends: with nil if it goes on, io.EOF after its last
// chunk, or errChunk.
func readBody(t *testing.T, data string, chunked bool) (payload string, err error) {
	if !chunked {
		return data, nil
	}
	all, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(data)))
	switch {
	case err == nil:
		err = io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = nil
	case strings.Contains(err.Error(), "too much non-data"):
		t.Skip("net/http bounds the size of all extensions together")
	default:
		err = errChunk
	}
	return string(all), err
}

// split returns the messages of a payload as cut does.
func (b *body) split(payload string) (messages []string, malformed bool) {
	if b.events {
		lines := strings.Split(payload, "\n")
		for _, line := range lines[:len(lines)-1] {
			if message, ok := strings.CutPrefix(line, "data:"); ok {
				messages = append(messages, strings.TrimSpace(message))
			}
		}
		return messages, false
	}
	if b.encoding == protocol.JSON {
		return []string{payload[:strings.LastIndexByte(payload, '\n')+1]}, false
	}
	whole := ""
	for {
		size, n := binary.Uvarint([]byte(payload))
		if malformed = n < 0 || size > maxFrame; malformed || n == 0 || size > uint64(len(payload)-n) {
			return []string{whole}, malformed
		}
		whole += payload[:n+int(size)]
		payload = payload[n+int(size):]
	}
}
