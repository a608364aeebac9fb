package resp

import (
	"errors"
	"io"
)

const (
	// minRead is the least room that a read is made for.
	minRead = 1 << 10
	// trust is how much memory is set aside for a value because of its announced
	// length alone; beyond it, memory doubles as bytes arrive.
	trust = 1 << 20
)

// Reader reads values one by one. Chunks are not reused: a chunk is garbage as soon
// as nothing received in it is referenced any more.
type Reader struct {
	src        io.Reader
	chunk      int // size of a usual chunk
	max        int // size of the largest value
	buf        []byte
	start, end int // what is received and not returned yet
}

// NewReader reads from src into chunks of the given size in bytes, at least 4 KiB;
// a value larger than that gets a chunk of its own, and one of more than max bytes
// is an error.
func NewReader(src io.Reader, chunk, max int) *Reader {
	return &Reader{src: src, chunk: chunk, max: max}
}

// Buffered is the number of bytes that are received and not returned yet.
func (r *Reader) Buffered() int { return r.end - r.start }

// Next reads the next value. It returns io.EOF at the end between two values,
// io.ErrUnexpectedEOF within one, a *ProtocolError, or the error of the source.
func (r *Reader) Next(f *Frame) error {
	for {
		n, err := f.parse(r.buf[r.start:r.end], r.max)
		switch {
		case err == nil:
			r.start += n
			if f.Kind == '|' { // attributes, which announce the value that they precede
				continue
			}
			return nil
		case err != errShort:
			return err
		}
		if err := r.fill(n); err != nil {
			return err
		}
	}
}

// fill reads until need bytes are there.
func (r *Reader) fill(need int) error {
	if need > r.max+minRead {
		p := parser{max: r.max}
		return p.tooLarge(need)
	}
	for r.Buffered() < need {
		have, room := r.Buffered(), len(r.buf)-r.end
		if room < need-have || room < minRead && have < minRead {
			r.grow(need)
		}
		if err := r.read(); err != nil {
			if errors.Is(err, io.EOF) && r.Buffered() > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// grow moves what is not returned yet to a new chunk.
func (r *Reader) grow(need int) {
	have := r.Buffered()
	if need < have+minRead { // the length is not known yet
		need = have + max(have, minRead)
	}
	size := max(r.chunk, min(need, max(trust, 2*have)))
	buf := make([]byte, size)
	r.end = copy(buf, r.buf[r.start:r.end])
	r.start = 0
	r.buf = buf
}

func (r *Reader) read() error {
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			return nil // an error comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
