package resp

import (
	"errors"
	"io"
)

const (
	minRead = 1 << 10
	// trust is how much memory the announced length of a value allocates at most.
	trust = 1 << 20
)

// Reader reads values. A value is valid until the next Fill or Next, or until it is freed if Retain was called for it.
type Reader struct {
	src        io.Reader
	usual      int // size of a chunk
	max        int // size of the largest value
	chunk      *Chunk
	buf        []byte // of chunk
	start, end int    // bytes of buf that are received and not returned yet
	need       int    // how many bytes the next value needs to be parsed further
}

// NewReader has chunks of at least 4 KiB. A larger value gets a chunk of its own. More than max bytes are an error.
func NewReader(src io.Reader, chunk, max int) *Reader {
	return &Reader{src: src, usual: chunk, max: max}
}

// Next returns io.EOF at the end between two values, io.ErrUnexpectedEOF within one, a *ProtocolError, or the error of
// the source.
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

// Buffered returns the next value if it is received completely.
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
		if f.Kind != '|' { // attributes belong to the value that follows, and are skipped
			return true, nil
		}
	}
}

// Retain returns the chunk of the last value, which is valid until the caller frees one part of the chunk.
func (r *Reader) Retain() *Chunk {
	r.chunk.given++
	return r.chunk
}

// Empty reports whether everything received has been returned.
func (r *Reader) Empty() bool { return r.start == r.end }

// Fill reads at least the bytes that Buffered missed. It has the errors of Next.
func (r *Reader) Fill() error { return r.fill(max(r.need, r.end-r.start+1)) }

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

// grow moves the bytes that were not returned to a new chunk.
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
			return nil // the next read returns the error again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
