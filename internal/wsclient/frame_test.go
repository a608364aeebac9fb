package wsclient

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
)

// TestAppendFrame: a server reads the payload by the mask, also one of 0, which leaves it as it is.
func TestAppendFrame(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 125, 126, 65535, 65536} {
		for _, mask := range []uint32{0, 0x12FE0034} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rand.Uint32())
			}
			data := AppendFrame([]byte("before"), OpBinary, mask, payload)[len("before"):]
			n, head := uint64(data[1]&0x7F), 2
			switch n {
			case 126:
				n, head = uint64(binary.BigEndian.Uint16(data[2:])), 4
			case 127:
				n, head = binary.BigEndian.Uint64(data[2:]), 10
			}
			if data[0] != 0x80|OpBinary || data[1]&0x80 == 0 || n != uint64(size) || len(data) != head+4+size {
				t.Fatalf("%d bytes: %.20q", size, data)
			}
			key, got := data[head:head+4], slices.Clone(data[head+4:])
			if mask == 0 && !bytes.Equal(got, payload) {
				t.Errorf("%d bytes are not as they are", size)
			}
			for i := range got {
				got[i] ^= key[i&3]
			}
			if binary.LittleEndian.Uint32(key) != mask || !bytes.Equal(got, payload) {
				t.Errorf("%d bytes, mask %x: other bytes", size, key)
			}
		}
	}
}

// FuzzParseHeader: headers are those that the reader of the tests finds, and a header is complete once all its bytes have come.
func FuzzParseHeader(f *testing.F) {
	for _, seed := range []string{"\x81\x02{}", "\x01\x7e\x01\x00", "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00", "\x88\x00", "\xC1\x00", "\x81\x80", "\x83\x00", "\x09\x00", "\x89\x7e\x00\x7e"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, complete, err := ParseHeader(data)
		if err != nil {
			if first, second := data[0], data[1]; first&0x70 == 0 && second < 0x80 && slices.Contains([]byte{0, 1, 2}, first&0x0F) {
				t.Errorf("% x is refused: %v", data[:2], err)
			}
			return
		}
		if complete != (len(data) >= 2 && len(data) >= h.Head) {
			t.Errorf("% x is complete: %v", data[:min(len(data), maxHead)], complete)
		}
		for n := range min(len(data), h.Head) {
			if _, complete, err := ParseHeader(data[:n]); complete || err != nil {
				t.Errorf("% x is complete: %v, %v", data[:n], complete, err)
			}
		}
		if !complete || h.Size > uint64(len(data)-h.Head) {
			return
		}
		want, err := frametest.Read(bytes.NewReader(data))
		if err != nil || want.RSV1 || want.Op != h.Op || want.Fin != h.Fin || want.Payload != string(data[h.Head:h.Head+int(h.Size)]) {
			t.Errorf("% x: %+v, not %v (%v)", data, h, want, err)
		}
	})
}

// BenchmarkWriteFrame is a message of a client, without the kernel.
func BenchmarkWriteFrame(b *testing.B) {
	payload, mu := bytes.Repeat([]byte("x"), 200), sync.Mutex{}
	for b.Loop() {
		_ = WriteFrame(io.Discard, &mu, OpText, payload) // io.Discard takes it
	}
}
