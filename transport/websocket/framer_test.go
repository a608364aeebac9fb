package websocket

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

var _ transport.Framer = (*framer)(nil)

func testText(n int) string { return strings.Repeat("a chat message, ", n/16+1)[:n] }

// open reads one server frame with nothing of the package under test.
func open(t *testing.T, b []byte) (first byte, payload []byte) {
	t.Helper()
	n, at := int(b[1]), 2
	switch n {
	case 126:
		n, at = int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		n, at = int(binary.BigEndian.Uint64(b[2:])), 10
	}
	if len(b) != at+n {
		t.Fatalf("frame of %d bytes announces %d", len(b)-at, n)
	}
	return b[0], b[at:]
}

func TestFramer(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 65535, 65536, 100000} {
		for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
			f := newFramer(e, nil)
			want := testText(size)
			got := f.Frame(append(make([]byte, f.Headroom()), want...))
			first, payload := open(t, got)
			op := map[protocol.Encoding]byte{protocol.JSON: opText, protocol.Protobuf: opBinary}[e]
			if first != bitFin|op || string(payload) != want {
				t.Errorf("%v, %d bytes: wrong frame", e, size)
			}
			if f.Encoding() != e {
				t.Errorf("encoding %v, want %v", f.Encoding(), e)
			}
		}
	}
}

func TestFramerDeflate(t *testing.T) {
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
			f := newFramer(protocol.JSON, newDeflater(level, 150))
			for range 2 { // the second time with used state
				first, payload := open(t, f.Frame(append(make([]byte, f.Headroom()), tt.payload...)))
				if got := first&bitRSV1 != 0; got != tt.deflate {
					t.Fatalf("%s: compressed %v", tt.name, got)
				}
				if tt.deflate {
					payload = inflateStd(t, payload)
				}
				if string(payload) != tt.payload {
					t.Fatalf("%s, level %d: payload differs", tt.name, level)
				}
			}
		}
	}
}

func inflateStd(t *testing.T, p []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(p), strings.NewReader(inflateTail))))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInflate(t *testing.T) {
	long := deflateStd(testText(10000))
	for _, tt := range []struct {
		name, in string
		limit    int
		want     string
		err      *CloseError
	}{
		{"RFC 7692 7.2.3.1", "\xf2\x48\xcd\xc9\xc9\x07\x00", 100, "Hello", nil},
		{"no compression", "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 100, "Hello", nil},
		{"BFINAL", "\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 100, "Hello", nil},
		{"two blocks", "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 100, "Hello", nil},
		{"empty", "\x00", 100, "", nil},
		{"nothing", "", 100, "", errDeflate},
		{"at the limit", long, 10000, testText(10000), nil},
		{"above the limit", long, 9999, "", errTooBigInflate},
		{"garbage", "\xff\xff\xff", 100, "", errDeflate},
		{"cut off", long[:10], 10000, "", errDeflate},
	} {
		b, err := inflate([]byte(tt.in), tt.limit)
		if err != tt.err {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
			continue
		}
		if err == nil && string(b.B) != tt.want {
			t.Errorf("%s: got %q", tt.name, b.B)
		}
		b.Free()
	}
}

func deflateStd(s string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	_, _ = w.Write([]byte(s))
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), deflateTail)
}

func FuzzInflate(f *testing.F) {
	f.Add([]byte("\xf2\x48\xcd\xc9\xc9\x07\x00"), 100)
	f.Add([]byte(deflateStd(testText(1000))), 1000)
	f.Fuzz(func(t *testing.T, p []byte, limit int) {
		limit = limit & 0xFFFF
		want, werr := io.ReadAll(io.LimitReader(flate.NewReader(io.MultiReader(bytes.NewReader(p), strings.NewReader(inflateTail))), int64(limit)+1))
		b, err := inflate(p, limit)
		switch {
		case len(want) > limit:
			if err == nil {
				t.Fatal("limit not kept")
			}
		case werr != nil:
			if err == nil {
				t.Fatalf("accepted what flate refuses: %v", werr)
			}
		case err != nil:
			t.Fatalf("refused: %v", err)
		case !bytes.Equal(b.B, want):
			t.Fatal("result differs")
		}
		b.Free()
	})
}

func FuzzDeflateRoundTrip(f *testing.F) {
	f.Add([]byte("hello hello hello hello"), 1)
	f.Fuzz(func(t *testing.T, p []byte, level int) {
		d := newDeflater(1+level&7, 0)
		z, ok := d.compress(bytes.Clone(p))
		if !ok {
			if !bytes.Equal(z, p) {
				t.Fatal("changed what was not compressed")
			}
			return
		}
		if len(z) >= len(p) {
			t.Fatal("did not shrink")
		}
		b, err := inflate(z, len(p))
		if err != nil || !bytes.Equal(b.B, p) {
			t.Fatalf("does not come back: %v", err)
		}
		b.Free()
	})
}

func TestFramerAllocations(t *testing.T) {
	for name, d := range map[string]*deflater{"plain": nil, "deflate": newDeflater(1, 0)} {
		t.Run(name, func(t *testing.T) {
			f := newFramer(protocol.JSON, d)
			msg := append(make([]byte, maxHeader), testText(1000)...)
			buf := make([]byte, len(msg))
			checkAllocs(t, 0, func() { f.Frame(buf[:copy(buf, msg)]) })
		})
	}
}

func BenchmarkFrame(b *testing.B) {
	for name, d := range map[string]*deflater{"plain": nil, "deflate": newDeflater(1, 0)} {
		for _, size := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				f := newFramer(protocol.JSON, d)
				msg := append(make([]byte, maxHeader), testText(size)...)
				buf := make([]byte, len(msg))
				b.ReportAllocs()
				for b.Loop() {
					f.Frame(buf[:copy(buf, msg)])
				}
			})
		}
	}
}

func BenchmarkParser(b *testing.B) {
	for _, size := range []int{30, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			msg := masked(text(testText(size)))
			buf := make([]byte, len(msg))
			p := parser{limit: 1 << 16}
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				if e, _, err := p.next(buf[:copy(buf, msg)]); e.kind != eventMessage {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkInflate(b *testing.B) {
	z := []byte(deflateStd(testText(1000)))
	b.ReportAllocs()
	for b.Loop() {
		out, err := inflate(z, 1<<16)
		if err != nil {
			b.Fatal(err)
		}
		out.Free()
	}
}
