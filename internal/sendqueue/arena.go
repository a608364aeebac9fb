package sendqueue

const (
	// chunkSize is how much an arena allocates at a time; bytes.
	chunkSize = 64 << 10
	// maxSpareChunks is how many chunks an arena keeps for turns that need several.
	maxSpareChunks = 16
	// A frame of more than large bytes that gathered messages stays in the buffer where it was made.
	large = chunkSize / 4
	// MaxLarge is how many bytes of such buffers an arena keeps: later turns then allocate none, and their frames are
	// still in the processor's cache when they are written.
	MaxLarge = 512 << 10
)

// Arena is a loop's memory for frames, side by side, so that frames that follow each other are one run of bytes. A frame
// costs no allocation. The zero value is ready for use.
type Arena struct {
	chunk []byte
	// full are the chunks used before chunk; all have length 0, as those of free.
	full, free [][]byte
	// lent are large buffers with frames of this turn.
	lent, spare         [][]byte
	lentSize, spareSize int
}

// Tail returns the free space, as a slice of length 0 and a capacity of at least n, unless n is above 32 KiB.
func (a *Arena) Tail(n int) []byte {
	if cap(a.chunk) == 0 || cap(a.chunk)-len(a.chunk) < n && n <= chunkSize/2 {
		a.nextChunk()
	}
	return a.chunk[len(a.chunk):]
}

func (a *Arena) nextChunk() {
	if cap(a.chunk) > 0 {
		a.full = append(a.full, a.chunk[:0])
	}
	if n := len(a.free); n > 0 {
		a.chunk, a.free = a.free[n-1], a.free[:n-1]
		return
	}
	a.chunk = make([]byte, 0, chunkSize)
}

// Commit copies a frame to the end of the arena and returns the copy, or the frame itself if it has more than 16 KiB and
// the chunk has no room.
func (a *Arena) Commit(frame []byte) []byte {
	if len(frame) > cap(a.chunk)-len(a.chunk) {
		if len(frame) > chunkSize/4 {
			return frame
		}
		a.nextChunk()
	}
	n := len(a.chunk)
	a.chunk = append(a.chunk, frame...)
	return a.chunk[n:]
}

// Large is the number of bytes of large frames of this turn.
func (a *Arena) Large() int { return a.lentSize }

// swap takes a large buffer until Reset, and returns another one, or nil, for the next frame.
func (a *Arena) swap(buf []byte) []byte {
	a.lent = append(a.lent, buf)
	a.lentSize += cap(buf)
	n := len(a.spare)
	if n == 0 {
		return nil
	}
	buf, a.spare[n-1] = a.spare[n-1], nil
	a.spare = a.spare[:n-1]
	a.spareSize -= cap(buf)
	return buf
}

func (a *Arena) unlend() {
	for _, buf := range a.lent {
		if poison {
			clear(buf[:cap(buf)])
		}
		if a.spareSize+cap(buf) <= MaxLarge {
			a.spare = append(a.spare, buf[:0])
			a.spareSize += cap(buf)
		}
	}
	clear(a.lent)
	a.lent, a.lentSize = a.lent[:0], 0
}

// Reset forgets all frames. Queues must have been flushed.
func (a *Arena) Reset() {
	for _, c := range a.full {
		if poison {
			clear(c[:cap(c)])
		}
		if len(a.free) < maxSpareChunks {
			a.free = append(a.free, c)
		}
	}
	clear(a.full)
	a.full = a.full[:0]
	if poison {
		clear(a.chunk)
	}
	a.chunk = a.chunk[:0]
	if a.lentSize > 0 {
		a.unlend()
	}
}
