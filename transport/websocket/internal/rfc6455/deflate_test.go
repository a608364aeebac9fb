package rfc6455

import (
	"bytes"
	"io"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
)

func TestInflate(t *testing.T) {
	long := frametest.Deflate(testText(10000))
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
		{"above the limit", long, 9999, "", ErrTooBigInflated},
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

// TestInflateText: what is UTF-8 shows after decompression only.
func TestInflateText(t *testing.T) {
	e := Event{Kind: EventMessage, Compressed: true, Payload: []byte(frametest.Deflate("a\xff"))}
	b, err := e.Inflate(100)
	if err != nil || string(b.B) != "a\xff" {
		t.Errorf("binary: %v", err)
	}
	b.Free()
	e.Text = true
	if _, err := e.Inflate(100); err != errTextEncoding {
		t.Errorf("text: got %v", err)
	}
}

func FuzzInflate(f *testing.F) {
	f.Add([]byte("\xf2\x48\xcd\xc9\xc9\x07\x00"), 100)
	f.Add([]byte(frametest.Deflate(testText(1000))), 1000)
	f.Fuzz(func(t *testing.T, p []byte, limit int) {
		limit = limit & 0xFFFF
		want, werr := io.ReadAll(io.LimitReader(frametest.Inflater(string(p)), int64(limit)+1))
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
		d := NewDeflater(1+level&7, 0)
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

func BenchmarkInflate(b *testing.B) {
	z := []byte(frametest.Deflate(testText(1000)))
	b.ReportAllocs()
	for b.Loop() {
		out, err := inflate(z, 1<<16)
		if err != nil {
			b.Fatal(err)
		}
		out.Free()
	}
}
