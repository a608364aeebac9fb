package framing

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
)

// join makes what the core gives to a framer.
func join(f *Framer, messages []string) []byte {
	buf := make([]byte, f.Headroom())
	for i, m := range messages {
		if f.Encoding() == protocol.Protobuf {
			buf = append(binary.AppendUvarint(buf, uint64(len(m))), m...)
			continue
		}
		if i > 0 {
			buf = append(buf, '\n')
		}
		buf = append(buf, m...)
	}
	return buf
}

// read returns the messages of a body. It knows nothing of how they were framed.
func read(f *Framer, body []byte) (messages []string, err error) {
	var r io.Reader = bytes.NewReader(body)
	if f.chunked {
		r = httputil.NewChunkedReader(io.MultiReader(r, strings.NewReader(f.End())))
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	switch f.format {
	case Lines:
		for line := range strings.Lines(string(text)) {
			if !strings.HasSuffix(line, "\n") {
				return messages, fmt.Errorf("the last line has no end: %q", line)
			}
			messages = append(messages, strings.TrimSuffix(line, "\n"))
		}
	case Events:
		return events(string(text))
	case Delimited:
		for r := bytes.NewReader(text); r.Len() > 0; {
			n, err := binary.ReadUvarint(r)
			if err != nil || n > uint64(r.Len()) {
				return messages, errors.Join(fmt.Errorf("length %d", n), err)
			}
			m := make([]byte, n)
			_, _ = io.ReadFull(r, m)
			messages = append(messages, string(m))
		}
	}
	return messages, nil
}

// events reads a stream as EventSource does (HTML standard, section 9.2.6).
func events(text string) (messages []string, err error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var data []string
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<22)
	for s.Scan() {
		switch name, value, _ := strings.Cut(s.Text(), ":"); {
		case s.Text() == "":
			if data != nil {
				messages = append(messages, strings.Join(data, "\n"))
			}
			data = nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		default:
			return messages, fmt.Errorf("line %q", s.Text())
		}
	}
	if data != nil {
		return messages, fmt.Errorf("the last event has no end: %q", data)
	}
	return messages, s.Err()
}

// FuzzFrame: whatever the messages and however they are put into frames, readers get them, and the
// size of each frame is found.
func FuzzFrame(f *testing.F) {
	f.Add("{}", uint8(0), uint16(1))
	f.Add("{\"a\":1}\x00{}\x00\x00{\"push\":{}}", uint8(3), uint16(0b1011))
	f.Add(strings.Repeat("x", 300)+"\x00data: \x00a\x00b", uint8(2), uint16(0))
	f.Add(strings.Repeat("{}\x00", 200), uint8(1), uint16(0xffff))
	f.Fuzz(func(t *testing.T, text string, which uint8, cuts uint16) {
		if len(text) > 8<<10 {
			return
		}
		framer := framers[which%uint8(formats)][which/uint8(formats)%2]
		if framer.format != Delimited {
			text = strings.NewReplacer("\n", "", "\r", "", "id: ", "").Replace(text)
		}
		messages := strings.Split(text, "\x00")
		if framer.format != Delimited { // JSON has no empty messages
			messages = slices.DeleteFunc(messages, func(m string) bool { return m == "" })
		}
		var body []byte
		var sizes []int
		for rest := messages; len(rest) > 0; cuts >>= 1 {
			n := 1
			if cuts&1 != 0 {
				n = min(len(rest), 3)
			}
			frame := framer.Frame(join(framer, rest[:n]))
			body, sizes, rest = append(body, frame...), append(sizes, len(frame)), rest[n:]
		}
		got, err := read(framer, body)
		if err != nil || !slices.Equal(got, messages) {
			t.Fatalf("%+v: got %q, %v, want %q of %q", framer, got, err, messages, body)
		}
		for i := 0; len(body) > 0; i++ {
			n := framer.FrameSize(body)
			if framer.chunked && n != sizes[i] || n <= 0 {
				t.Fatalf("%+v: frame %d has %d bytes, want %d", framer, i, n, sizes[i])
			}
			if !framer.chunked { // the size of a message
				if got, err := read(framer, body[:n]); err != nil || len(got) != 1 {
					t.Fatalf("%+v: %q is %q, %v", framer, body[:n], got, err)
				}
			}
			if short := body[:n-1]; framer.FrameSize(short) > len(short) {
				t.Fatalf("%+v: %q", framer, short)
			}
			body = body[n:]
		}
	})
}

// TestFrames has the bytes that the specification shows.
func TestFrames(t *testing.T) {
	big := strings.Repeat("x", 4090)
	for _, c := range []struct {
		format   Format
		chunked  bool
		messages []string
		want     string
	}{
		{Lines, false, []string{"{}"}, "{}\n"},
		{Lines, false, []string{"{}", "[]"}, "{}\n[]\n"},
		{Lines, true, []string{"{}"}, "3\r\n{}\n\r\n"},
		{Events, false, []string{"{}"}, "data: {}\n\n"},
		{Events, false, []string{"{}", "[1]", "2"}, "data: {}\n\ndata: [1]\n\ndata: 2\n\n"},
		{Events, true, []string{"{}"}, "a\r\ndata: {}\n\n\r\n"},
		{Events, true, []string{big}, "1002\r\ndata: " + big + "\n\n\r\n"},
		// A bookmark, and an event that goes on in the next frame.
		{Lines, false, []string{"{}", "id: a=1.e", "[]"}, "{}\nid: a=1.e\n[]\n"},
		{Events, false, []string{"{}", "id: a=1.e"}, "data: {}\nid: a=1.e\n\n"},
		{Events, false, []string{"{}", "id: a=1.e", "[1]", "2", "id: ", "3"}, "data: {}\nid: a=1.e\n\ndata: [1]\n\ndata: 2\nid: \n\ndata: 3\n\n"},
		{Events, false, []string{"{}", ""}, "data: {}\n"},
		{Events, false, []string{"{}", "[1]", "id: b", "{}", ""}, "data: {}\n\ndata: [1]\nid: b\n\ndata: {}\n"},
		{Events, false, []string{"id: a=1.e"}, "id: a=1.e\n\n"},
		{Events, true, []string{"{}", ""}, "9\r\ndata: {}\n\r\n"},
		{Events, true, []string{"id: a=1.e"}, "b\r\nid: a=1.e\n\n\r\n"},
		{Delimited, false, []string{""}, "\x00"},
		{Delimited, true, []string{"", "ab"}, "4\r\n\x00\x02ab\r\n"},
		{Delimited, true, nil, ""},
	} {
		f := Of(c.format, c.chunked)
		if got := string(f.Frame(join(f, c.messages))); got != c.want {
			t.Errorf("%+v %.40q: got %.80q, want %.80q", f, c.messages, got, c.want)
		}
	}
}

// TestFrameSize finds no frame in what is none.
func TestFrameSize(t *testing.T) {
	for _, b := range []string{"", "x", "\r\n", "HTTP/1.1 200 OK\r\n\r\n", "123456789\r\n", "5\r\nab", "5", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		for _, pair := range framers {
			for _, f := range pair {
				if n := f.FrameSize([]byte(b)); n > len(b) || n < len(b) && f.chunked {
					t.Errorf("%+v %q: %d", f, b, n)
				}
			}
		}
	}
}

// TestFrameAllocations: a frame needs no memory beyond the room that the core leaves.
func TestFrameAllocations(t *testing.T) {
	for _, pair := range framers {
		for _, f := range pair {
			buf := make([]byte, 0, 1<<10)
			if n := testing.AllocsPerRun(100, func() {
				b := append(buf[:f.Headroom()], "{}\n{}\n{}"...)
				if len(f.Frame(b)) == 0 {
					t.Fatal("no frame")
				}
			}); n > 0 {
				t.Errorf("%+v: %v allocations", f, n)
			}
		}
	}
}
