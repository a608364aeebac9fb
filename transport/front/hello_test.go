package front

import (
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestHelloLength: the length of a ClientHello is found however it is cut into records, and these into reads.
func TestHelloLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 1<<24-1).Draw(t, "size")
		sent := rapid.IntRange(0, 20).Draw(t, "sent")
		message := append([]byte{1, byte(size >> 16), byte(size >> 8), byte(size)}, make([]byte, sent)...)
		var stream []byte
		for rest := message; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "record")
			stream = append(stream, 22, 3, 1, byte(n>>8), byte(n))
			stream = append(stream, rest[:n]...)
			rest = rest[n:]
		}
		var h hello
		got := 0
		for rest := stream; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "read")
			if got = h.length(rest[:n]); got != 0 && got != size {
				t.Fatalf("length %d, want %d", got, size)
			}
			rest = rest[n:]
		}
		if got != size {
			t.Fatalf("length %d, want %d", got, size)
		}
	})
}

// TestLongHello: a client cannot make the server keep much for a handshake that it does not finish.
func TestLongHello(t *testing.T) {
	s := newSecureSite(t, nil)
	for name, text := range map[string]string{
		"a ClientHello of 20,000 bytes": "\x16\x03\x01\x40\x00\x01\x00\x4e\x20" + strings.Repeat("x", 100),
		"its length in two records":     "\x16\x03\x01\x00\x02\x01\x00\x16\x03\x01\x40\x00\x4e\x20" + strings.Repeat("x", 100),
	} {
		c := s.dial()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
	}
	if n := strings.Count(s.log.String(), errHello.Error()); n != 2 {
		t.Errorf("%d of 2 are told in the log: %s", n, s.log)
	}
}
