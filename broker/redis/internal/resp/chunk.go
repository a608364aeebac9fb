package resp

import (
	"sync"
	"sync/atomic"
)

// Chunk is memory that values are received in. It is used again when the reader has left it and every part that was
// retained is freed, while it is still in the processor's cache. If a part is never freed, the garbage collector gets
// the chunk.
type Chunk struct {
	// Attached and Used belong to the holders of parts. A chunk that is used again keeps Attached; Used is 0.
	Attached any
	Used     int

	buf []byte
	// left counts the parts that are retained and, while the reader may give out more, reading.
	left  atomic.Int64
	given int64
}

// reading is more than the parts that a chunk can have.
const reading = 1 << 40

// ChunkSize is the size in bytes of chunks that are used again.
const ChunkSize = 64 << 10

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

// Free gives back n of the parts. Any goroutine may call it.
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

func (c *Chunk) leave() { c.Free(int(reading - c.given)) }
