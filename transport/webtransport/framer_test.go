package webtransport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// parse feeds chunks to an endpoint, and returns the messages and the violation.
func parse(f *framer, limit int, chunks ...[]byte) (messages []byte, wrong error) {
	e := endpoint{framer: f, cfg: &settings{limit: limit}}
	defer e.Release()
	for _, rest := range chunks {
		rest = bytes.Clone(rest)
		for {
			var found transport.Found
			var message []byte
			switch found, message, rest = e.Next(rest); found {
			case transport.FoundMessage:
				messages = append(messages, message...)
				continue
			case transport.FoundControl:
				return messages, e.wrong
			}
			break
		}
		e.Rest()
	}
	return messages, nil
}

func TestMessages(t *testing.T) {
	long := strings.Repeat("x", 10)
	for _, tt := range []struct {
		encoding protocol.Encoding
		chunks   []string
		messages string
		wrong    error
	}{
		{protocol.JSON, []string{"{}\n"}, "{}\n", nil},
		{protocol.JSON, []string{"{", "}", "\n{}\n{"}, "{}\n{}\n", nil},
		{protocol.JSON, []string{"a\nb\nc"}, "a\nb\n", nil},
		{protocol.JSON, []string{"\n", "\n"}, "\n\n", nil},
		{protocol.JSON, []string{long + "\n" + long, "\n"}, long + "\n" + long + "\n", nil},
		{protocol.JSON, []string{"a\n" + long + "x\n"}, "a\n", errTooLarge},
		{protocol.JSON, []string{"a\n", long, "x"}, "a\n", errTooLarge},
		{protocol.JSON, []string{long, "x\n"}, "", errTooLarge},
		{protocol.JSON, []string{long + "x"}, "", errTooLarge},
		{protocol.Protobuf, []string{"\x00"}, "\x00", nil},
		{protocol.Protobuf, []string{"\x02", "a", "b\x01c\x05"}, "\x02ab\x01c", nil},
		{protocol.Protobuf, []string{"\x81", "\x00", "a"}, "\x81\x00a", nil}, // a length need not be minimal
		{protocol.Protobuf, []string{"\x0a" + long + "\x00"}, "\x0a" + long + "\x00", nil},
		{protocol.Protobuf, []string{"\x01a\x0b"}, "\x01a", errTooLarge},
		{protocol.Protobuf, []string{"\xff", "\xff\xff\xff\x0f"}, "", errTooLarge},
		{protocol.Protobuf, []string{strings.Repeat("\xff", 9), "\x01"}, "", errTooLarge},
		{protocol.Protobuf, []string{"\x00" + strings.Repeat("\xff", 9), "\x02"}, "\x00", errBadLength},
		{protocol.Protobuf, []string{strings.Repeat("\x80", 11)}, "", errBadLength},
	} {
		chunks := make([][]byte, len(tt.chunks))
		for i, c := range tt.chunks {
			chunks[i] = []byte(c)
		}
		if messages, wrong := parse(framers[tt.encoding], len(long), chunks...); string(messages) != tt.messages || !errors.Is(wrong, tt.wrong) {
			t.Errorf("%v %q: got %q and %v, want %q and %v", tt.encoding, tt.chunks, messages, wrong, tt.messages, tt.wrong)
		}
	}
}

// split is the oracle: it returns the messages of a stream, until one is wrong.
func split(e protocol.Encoding, stream []byte, limit int) (messages []byte, wrong error) {
	for at := 0; at < len(stream); {
		rest := stream[at:]
		var length, end int
		if e == protocol.JSON {
			if length = bytes.IndexByte(rest, '\n'); length < 0 {
				length = len(rest)
			}
			end = length + 1
		} else {
			size, n := binary.Uvarint(rest)
			if n < 0 {
				return messages, errBadLength
			}
			if n == 0 {
				return messages, nil
			}
			length = int(min(size, 1<<40))
			end = n + length
		}
		if length > limit {
			return messages, errTooLarge
		}
		if end > len(rest) {
			return messages, nil
		}
		messages, at = append(messages, rest[:end]...), at+end
	}
	return messages, nil
}

// FuzzMessages: the messages are the same, however the stream is cut.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{"{}\n{}\n", "\x00\x05hello\x00", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"} {
		f.Add([]byte(seed), []byte{1, 2, 3}, byte(16), false)
		f.Add([]byte(seed), []byte{7}, byte(40), true)
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte, limit byte, pb bool) {
		e := protocol.JSON
		if pb {
			e = protocol.Protobuf
		}
		var chunks [][]byte
		rest := stream
		for _, c := range cuts {
			n := min(int(c), len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		messages, wrong := parse(framers[e], int(limit), append(chunks, rest)...)
		want, wantWrong := split(e, stream, int(limit))
		if !slices.Equal(messages, want) || !errors.Is(wrong, wantWrong) {
			t.Errorf("got %q and %v, want %q and %v", messages, wrong, want, wantWrong)
		}
	})
}

// TestFrames: frames end where messages end, and the driver finds the ends.
func TestFrames(t *testing.T) {
	for e, want := range map[protocol.Encoding]string{protocol.JSON: "{}\n{}\n", protocol.Protobuf: "\x01a\x00"} {
		f := framers[e]
		body := strings.TrimSuffix(want, "\n")
		if got := f.Frame([]byte(body)); string(got) != want {
			t.Errorf("%v: got %q, want %q", e, got, want)
		}
		first := strings.IndexAny(want, "\na") + 1
		ep := endpoint{framer: f}
		for b, size := range map[string]int{want: first, want[:1]: 1, want[first:]: len(want) - first} {
			if got := ep.FrameSize([]byte(b)); got != size {
				t.Errorf("%v: size of the first frame of %q is %d, want %d", e, b, got, size)
			}
		}
	}
	if got, want := string(framers[protocol.JSON].disconnect(protocol.DisconnectShutdown)), `{"push":{"disconnect":{"code":3001,"reason":"shutdown"}}}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
