package resp

import (
	"sync"
	"sync/atomic"
)

// Chunk is memory that values are received in. It is used again once the reader has left
// it and every part of it that was held is freed: so what is received quickly lies in
// memory that is still in the processor's cache, and hardly anything is garbage. A
// chunk of which a part is never freed is garbage like anything else.
type Chunk struct {
	// Attached belongs to whoever holds parts. It stays with the memory, and Used is 0
	// each time that it is used again.
	Attached any
	Used     int

	buf []byte
	// left is the number of parts that are held, and a lot more for as long as the
	// reader may give out others, which it only counts.
	left  atomic.Int64
	given int64
}

// reading is more than the parts that a chunk can have.
const reading = 1 << 40

// ChunkSize is the size in bytes of the chunks that are used again. Those of other sizes,
// as for a large value, are not.
const ChunkSize = 64 << 10

// chunks are for later.
var chunks = sync.Pool{New: func() any { return &Chunk{buf: make([]byte, ChunkSize)} }}

func newChunk(size int) *Chunk {
	var c *Chunk
	if size == ChunkSize {
		c = chunks.Get().(*Chunk)
		c.given, c.Used = 0, 0
	} else {
		c = &Chunk{buf: make([]byte, size)}
	}
	c.left.Store(reading)
	return c
}

// Free tells that nobody uses n of the parts any longer. It may be called from any goroutine.
func (c *Chunk) Free(n int) {
	if c.left.Add(-int64(n)) != 0 || len(c.buf) != ChunkSize {
		return
	}
	if poison {
		for i := range c.buf {
			c.buf[i] = '#'
		}
	}
	chunks.Put(c)
}

// leave is called when the reader has given out its last part.
func (c *Chunk) leave() { c.Free(int(reading - c.given)) }
