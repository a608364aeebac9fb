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

// Reader reads values one by one. What was returned is valid until the next Fill or
// Next, or until it is freed if it is held.
type Reader struct {
	src        io.Reader
	usual      int // size of a chunk
	max        int // size of the largest value
	chunk      *Chunk
	buf        []byte // of chunk
	start, end int    // what is received and not returned yet
	need       int    // bytes that the next value needs to be seen further
}

// NewReader reads from src into chunks of the given size in bytes, at least 4 KiB;
// a value larger than that gets a chunk of its own, and one of more than max bytes
// is an error.
func NewReader(src io.Reader, chunk, max int) *Reader {
	return &Reader{src: src, usual: chunk, max: max}
}

// Next reads the next value. It returns io.EOF at the end between two values,
// io.ErrUnexpectedEOF within one, a *ProtocolError, or the error of the source.
func (r *Reader) Next(f *Frame) error {
	for {
		found, err := r.Buffered(f)
		if found || err != nil {
			return err
		}
		if err := r.Fill(); err != nil {
			return err
		}
	}
}

// Buffered returns the next value if it is received as a whole.
func (r *Reader) Buffered(f *Frame) (found bool, err error) {
	for {
		n, err := f.parse(r.buf[r.start:r.end], r.max)
		if err != nil {
			r.need = n
			if errors.Is(err, errShort) {
				err = nil
			}
			return false, err
		}
		r.start += n
		if f.Kind != '|' { // attributes, which announce the value that they precede
			return true, nil
		}
	}
}

// Hold returns the chunk in which the value lies that was returned last. That is valid
// until the caller has it freed.
func (r *Reader) Hold() *Chunk {
	r.chunk.given++
	return r.chunk
}

// Empty reports whether nothing is received that is not returned.
func (r *Reader) Empty() bool { return r.start == r.end }

// Fill reads what Buffered found missing, at least. Its errors are those of Next.
func (r *Reader) Fill() error { return r.fill(max(r.need, r.end-r.start+1)) }

// fill reads until need bytes are there.
func (r *Reader) fill(need int) error {
	if need > r.max+minRead {
		p := parser{max: r.max}
		return p.tooLarge(need)
	}
	for r.end-r.start < need {
		have, room := r.end-r.start, len(r.buf)-r.end
		if room < need-have || room < minRead && have < minRead {
			r.grow(need)
		}
		if err := r.read(); err != nil {
			if errors.Is(err, io.EOF) && r.end > r.start {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// grow moves what is not returned yet to a new chunk.
func (r *Reader) grow(need int) {
	have := r.end - r.start
	if need < have+minRead { // the length is not known yet
		need = have + max(have, minRead)
	}
	last := r.chunk
	r.chunk = newChunk(max(r.usual, min(need, max(trust, 2*have))))
	r.end = copy(r.chunk.buf, r.buf[r.start:r.end])
	r.start = 0
	r.buf = r.chunk.buf
	if last != nil {
		last.leave()
	}
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
