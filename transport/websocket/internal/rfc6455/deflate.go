package rfc6455

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// This file has permessage-deflate, RFC 7692, without context takeover: no connection keeps compression state, and a
// broadcast is compressed once for all.

// A compressed message ends with an empty stored block, whose last four bytes are not sent (section 7.2.1). inflateTail
// adds a final block, which tells package flate the end.
const (
	deflateTail = "\x00\x00\xff\xff"
	inflateTail = deflateTail + "\x01\x00\x00\xff\xff"
)

// Deflater compresses messages. Any goroutine may use it.
type Deflater struct {
	level int
	min   int // smaller messages stay as they are
	pool  sync.Pool
}

type deflateState struct {
	w   *flate.Writer
	out boundedWriter
}

// boundedWriter fails above its capacity: compression does not shrink the message then.
type boundedWriter struct{ b []byte }

var errNoGain = errors.New("websocket: compression does not help")

func (w *boundedWriter) Write(p []byte) (int, error) {
	if len(p) > cap(w.b)-len(w.b) {
		return 0, errNoGain
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// NewDeflater returns a Deflater of a level from 1 (fastest) to 9 (smallest), for messages of at least minSize bytes.
func NewDeflater(level, minSize int) *Deflater {
	return &Deflater{level: level, min: minSize}
}

// compress replaces p by its compressed form in place. False: p must be sent uncompressed.
func (d *Deflater) compress(p []byte) ([]byte, bool) {
	if len(p) < d.min || len(p) == 0 {
		return p, false
	}
	s, _ := d.pool.Get().(*deflateState)
	if s == nil {
		s = new(deflateState)
		s.w, _ = flate.NewWriter(&s.out, d.level) // the level is in range
	}
	scratch := netio.Get(len(p) + len(deflateTail) - 1)
	defer scratch.Free()
	s.out.b = scratch.B[: 0 : len(p)+len(deflateTail)-1]
	s.w.Reset(&s.out)
	_, err := s.w.Write(p)
	if err == nil {
		err = s.w.Flush()
	}
	z := s.out.b
	s.out.b = nil
	d.pool.Put(s)
	if err != nil || !bytes.HasSuffix(z, []byte(deflateTail)) {
		return p, false
	}
	return p[:copy(p, z[:len(z)-len(deflateTail)])], true
}

type inflateState struct {
	r  io.ReadCloser // a flate.Resetter
	in bytes.Reader
}

var inflaters = sync.Pool{New: func() any {
	s := new(inflateState)
	s.r = flate.NewReader(&s.in)
	return s
}}

// Inflate decompresses a message to at most limit bytes, and checks that text is UTF-8. The caller frees the buffer.
func (e Event) Inflate(limit int) (*netio.Buffer, *CloseError) {
	b, err := inflate(e.Payload, limit)
	if err == nil && e.Text && !utf8.Valid(b.B) {
		b.Free()
		return nil, errTextEncoding
	}
	return b, err
}

func inflate(p []byte, limit int) (*netio.Buffer, *CloseError) {
	src := netio.Get(len(p) + len(inflateTail))
	defer src.Free()
	src.B = append(append(src.B, p...), inflateTail...)

	s := inflaters.Get().(*inflateState)
	defer inflaters.Put(s)
	s.in.Reset(src.B)
	defer s.in.Reset(nil)
	if err := s.r.(flate.Resetter).Reset(&s.in, nil); err != nil {
		return nil, errDeflate
	}
	out := netio.Get(min(4*len(p), limit) + 1)
	for {
		if len(out.B) == cap(out.B) {
			out = out.Grow(len(out.B))
		}
		n, err := s.r.Read(out.B[len(out.B):cap(out.B)])
		out.B = out.B[:len(out.B)+n]
		switch {
		case len(out.B) > limit:
			out.Free()
			return nil, ErrTooBigInflated
		case err == io.EOF:
			return out, nil
		case err != nil:
			out.Free()
			return nil, errDeflate
		}
	}
}
