package pbwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// TestVarint goes through every length that a varint has.
func TestVarint(t *testing.T) {
	for bit := range 64 {
		for _, v := range []uint64{1<<bit - 1, 1 << bit, 1<<bit | 1} {
			want := binary.AppendUvarint(nil, v)
			buf := make([]byte, 16)
			i := PutVarint(buf, len(buf), v)
			if !bytes.Equal(buf[i:], want) || SizeVarint(v) != len(want) {
				t.Errorf("%d: % x of size %d, want % x", v, buf[i:], SizeVarint(v), want)
			}
		}
	}
}

func TestZigzag(t *testing.T) {
	for _, v := range []int64{0, -1, 1, -2, 1<<62 + 1, 1<<63 - 1, -1 << 63} {
		buf := binary.AppendVarint([]byte{1 << 3}, v) // which is in zigzag form
		if u, _ := binary.Uvarint(buf[1:]); u != Zigzag(v) {
			t.Errorf("%d: %d, want %d", v, Zigzag(v), u)
		}
		r := NewReader(buf)
		if !r.Next() || r.Sint64() != v || r.Err() != nil {
			t.Errorf("%d is not read", v)
		}
	}
}

func TestDouble(t *testing.T) {
	for _, v := range []float64{0, 1, -0.1, math.MaxFloat64, math.Inf(-1)} {
		buf := make([]byte, 9)
		buf[0] = 1<<3 | wireFixed64
		if i := PutDouble(buf, len(buf), v); i != 1 {
			t.Fatal(i)
		}
		for n := 1; n < len(buf); n++ {
			if r := NewReader(buf[:n]); !r.Next() || r.Double() != 0 || r.Err() == nil {
				t.Errorf("%g of %d bytes is read", v, n)
			}
		}
		if r := NewReader(buf); !r.Next() || r.Double() != v || r.Err() != nil || r.Next() {
			t.Errorf("%g is not read", v)
		}
	}
}

// TestErrorSticks checks that reading on after an error is harmless.
func TestErrorSticks(t *testing.T) {
	r := NewReader([]byte{0x22, 5, 1})
	r.Next()
	outer := r.Enter()
	err := r.Err()
	if err == nil || err.Error() != "protobuf: offset 2, field 4: truncated" {
		t.Fatal(err)
	}
	r.Skip()
	if r.Varint() != 0 || r.String() != "" || r.Bytes() != nil || r.Next() {
		t.Error("something is read after an error")
	}
	r.Leave(outer)
	if r.Next() || !errors.Is(r.Err(), err) {
		t.Error(r.Err())
	}
}
