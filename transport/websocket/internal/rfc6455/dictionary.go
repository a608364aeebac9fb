package rfc6455

import (
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Dictionary compresses each message for itself as raw DEFLATE (RFC 1951), against a text that the receiver has. Any
// goroutine may use it.
type Dictionary struct {
	data []byte
	pool sync.Pool
}

// dictionaryLevel is the fastest level of this package that heeds the dictionary in messages of less than about a
// hundred bytes, too. Level 6 of compress/flate takes as long as this one.
const dictionaryLevel = 7

// NewDictionary keeps data.
func NewDictionary(data []byte) *Dictionary { return &Dictionary{data: data} }

// Compress replaces p by its compressed form in place. False: that would not be smaller, and p is as it was.
func (d *Dictionary) Compress(p []byte) ([]byte, bool) {
	if len(p) < 2 {
		return p, false
	}
	s, _ := d.pool.Get().(*deflateState)
	if s == nil {
		s = new(deflateState)
		s.w, _ = flate.NewWriterDict(&s.out, dictionaryLevel, d.data) // the level is in range
	}
	scratch := netio.Get(len(p) - 1)
	defer scratch.Free()
	s.out.b = scratch.B[: 0 : len(p)-1]
	s.w.Reset(&s.out)
	_, err := s.w.Write(p)
	if err == nil {
		err = s.w.Close()
	}
	z := s.out.b
	s.out.b = nil
	d.pool.Put(s)
	if err != nil {
		return p, false
	}
	return p[:copy(p, z)], true
}

// Deflate compresses data without a dictionary.
func Deflate(data []byte) []byte {
	var out unboundedWriter
	w, _ := flate.NewWriter(&out, 9) // the level is in range
	_, _ = w.Write(data)             // out does not fail
	_ = w.Close()
	return out.b
}

type unboundedWriter struct{ b []byte }

func (w *unboundedWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
