package rfc6455

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/proptest"
)

// inflateWith is the other implementation of DEFLATE.
func inflateWith(t testing.TB, z, dictionary []byte) []byte {
	t.Helper()
	r := flate.NewReaderDict(bytes.NewReader(z), dictionary)
	p, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%x: %v", z, err)
	}
	return p
}

// checkDictionary compresses messages in a row, each of which stands for itself.
func checkDictionary(t *testing.T, dictionary []byte, messages ...[]byte) {
	t.Helper()
	d := NewDictionary(dictionary)
	for _, m := range messages {
		p := bytes.Clone(m)
		z, ok := d.Compress(p)
		if !ok {
			if !bytes.Equal(z, m) {
				t.Fatalf("%q became %q", m, z)
			}
			continue
		}
		if len(z) >= len(m) {
			t.Fatalf("%d bytes became %d", len(m), len(z))
		}
		if got := inflateWith(t, z, dictionary); !bytes.Equal(got, m) {
			t.Fatalf("dictionary %q: %q became %q", dictionary, m, got)
		}
	}
}

func TestDictionary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range proptest.Rounds(40) {
		symbols := 1 + r.IntN(256)
		random := func(n int) []byte {
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(r.IntN(symbols))
			}
			return p
		}
		dictionary := random(1 + r.IntN(1<<r.IntN(16)))
		var messages [][]byte
		for range 5 {
			m := random(r.IntN(1 << r.IntN(14)))
			if from := r.IntN(len(dictionary)); r.IntN(2) == 0 {
				m = append(m, dictionary[from:]...)
			}
			messages = append(messages, m)
		}
		checkDictionary(t, dictionary, messages...)
	}
	if got := inflateWith(t, Deflate([]byte("x")), nil); string(got) != "x" {
		t.Errorf("got %q", got)
	}
}

// What the dictionary has costs next to nothing.
func TestDictionaryHelps(t *testing.T) {
	text := []byte(`{"push":{"channel":"prices:eurusd","pub":{"data":{"symbol":"EURUSD","bid":1.08412,"ask":1.08417}}}}`)
	d := NewDictionary(text)
	if z, ok := d.Compress(bytes.Clone(text)); !ok || len(z) > 8 {
		t.Errorf("%d bytes, %v", len(z), ok)
	}
	if _, ok := d.Compress([]byte("?")); ok {
		t.Error("a byte is compressed")
	}
	if raceEnabled {
		return
	}
	var p []byte
	if n := testing.AllocsPerRun(100, func() {
		p = append(p[:0], text...)
		d.Compress(p)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDictionary(f *testing.F) {
	f.Add([]byte("hello, world"), []byte("hello, world, hello"))
	f.Fuzz(func(t *testing.T, dictionary, message []byte) {
		if len(dictionary) == 0 || len(dictionary) > 32<<10 {
			t.Skip()
		}
		checkDictionary(t, dictionary, message, message)
	})
}

// BenchmarkDictionary compresses a publication; size is what is left of its 151 bytes.
func BenchmarkDictionary(b *testing.B) {
	text := func(n int) []byte {
		return fmt.Appendf(nil, `{"push":{"channel":"prices:EURUSD","pub":{"data":{"symbol":"EURUSD","bid":1.0%04d,"ask":1.0%04d,"exchange":"XETRA","currency":"EUR"},"offset":%d}}}`,
			n*7919%10000, n*104729%10000, 1234567+n)
	}
	for _, size := range []int{4 << 10, 8 << 10, 32 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var dictionary []byte
			for n := 1; len(dictionary) < size; n++ {
				dictionary = append(dictionary, text(n)...)
			}
			d := NewDictionary(dictionary[:size])
			var p []byte
			n, sum := 0, 0
			for b.Loop() {
				p = append(p[:0], text(n)...)
				z, _ := d.Compress(p)
				n++
				sum += len(z)
			}
			b.ReportMetric(float64(sum)/float64(n), "size")
		})
	}
}
