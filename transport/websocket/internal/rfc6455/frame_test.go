package rfc6455

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
)

func testText(n int) string { return strings.Repeat("a chat message, ", n/16+1)[:n] }

// open reads one server frame.
func open(t *testing.T, b []byte) frametest.Frame {
	t.Helper()
	r := bytes.NewReader(b)
	f, err := frametest.Read(r)
	if err != nil || r.Len() != 0 {
		t.Fatalf("%v, and %d more bytes, in % x", err, r.Len(), b)
	}
	return f
}

func TestFrame(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 65535, 65536, 100000} {
		for _, op := range []byte{OpText, OpBinary} {
			want := testText(size)
			got := Frame(append(make([]byte, MaxHeader), want...), op, nil)
			if open(t, got) != (frametest.Frame{Fin: true, Op: op, Payload: want}) {
				t.Errorf("opcode %d, %d bytes: wrong frame", op, size)
			}
		}
	}
}

func TestFrameDeflate(t *testing.T) {
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	for _, tt := range []struct {
		name    string
		payload string
		deflate bool
	}{
		{"empty", "", false},
		{"below the minimum", testText(149), false},
		{"minimum", testText(150), true},
		{"long", testText(200000), true},
		{"incompressible", string(noise), false},
	} {
		for level := 1; level <= 9; level++ {
			d := NewDeflater(level, 150)
			for range 2 { // the second time with used state
				f := open(t, Frame(append(make([]byte, MaxHeader), tt.payload...), OpText, d))
				if f.RSV1 != tt.deflate {
					t.Fatalf("%s: compressed %v", tt.name, f.RSV1)
				}
				if tt.deflate {
					plain, err := io.ReadAll(frametest.Inflater(f.Payload))
					if err != nil {
						t.Fatal(err)
					}
					f.Payload = string(plain)
				}
				if f.Payload != tt.payload {
					t.Fatalf("%s, level %d: payload differs", tt.name, level)
				}
			}
		}
	}
}

func TestFrameAllocations(t *testing.T) {
	for name, d := range map[string]*Deflater{"plain": nil, "deflate": NewDeflater(1, 0)} {
		t.Run(name, func(t *testing.T) {
			msg := append(make([]byte, MaxHeader), testText(1000)...)
			buf := make([]byte, len(msg))
			checkAllocs(t, 0, func() { Frame(buf[:copy(buf, msg)], OpText, d) })
		})
	}
}

func FuzzUnmask(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), uint32(0x01020304), 3)
	f.Fuzz(func(t *testing.T, b []byte, key uint32, at int) {
		at &= 3
		k := binary.LittleEndian.AppendUint32(nil, key)
		want := make([]byte, len(b))
		for i := range b {
			want[i] = b[i] ^ k[(i+at)%4]
		}
		got := bytes.Clone(b)
		unmask(got, key, at)
		if !bytes.Equal(got, want) {
			t.Fatalf("got % x, want % x", got, want)
		}
		unmask(got, key, at)
		if !bytes.Equal(got, b) {
			t.Fatal("unmasking twice is not the identity")
		}
	})
}

func TestTruncateReason(t *testing.T) {
	for _, s := range []string{"", "shutdown", strings.Repeat("x", 124), strings.Repeat("x", 122) + "é", strings.Repeat("€", 50), "a\xffb", strings.Repeat("\xff", 100)} {
		got := truncateReason(s)
		if len(got) > maxReason || !utf8.ValidString(got) || utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Errorf("truncateReason(%q) = %q", s, got)
		}
		if len(s) <= maxReason && utf8.ValidString(s) && got != s {
			t.Errorf("truncateReason(%q) = %q, changed without need", s, got)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	for name, d := range map[string]*Deflater{"plain": nil, "deflate": NewDeflater(1, 0)} {
		for _, size := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				msg := append(make([]byte, MaxHeader), testText(size)...)
				buf := make([]byte, len(msg))
				b.ReportAllocs()
				for b.Loop() {
					Frame(buf[:copy(buf, msg)], OpText, d)
				}
			})
		}
	}
}
