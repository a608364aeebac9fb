package outbox

const (
	// chunkSize is what an arena allocates at a time.
	chunkSize = 64 << 10
	// keepChunks is how many chunks an arena keeps for turns that need several.
	keepChunks = 16
)

// Arena is where a loop makes frames. They lie one behind the other, so that a
// queue holds those that follow each other as one run of bytes, and they are all
// forgotten at once when everything is flushed: a frame costs no allocation. The
// zero value is ready for use.
type Arena struct {
	chunk []byte
	// full are the chunks before, free those for later; both of length 0.
	full, free [][]byte
}

// Tail is the free space of the arena, of length 0, with a capacity of n if that is
// not large. A frame that is appended to it becomes part of the arena by Commit.
func (a *Arena) Tail(n int) []byte {
	if cap(a.chunk) == 0 || cap(a.chunk)-len(a.chunk) < n && n <= chunkSize/2 {
		a.turn()
	}
	return a.chunk[len(a.chunk):]
}

// turn takes another chunk.
func (a *Arena) turn() {
	if cap(a.chunk) > 0 {
		a.full = append(a.full, a.chunk[:0])
	}
	if n := len(a.free); n > 0 {
		a.chunk, a.free = a.free[n-1], a.free[:n-1]
		return
	}
	a.chunk = make([]byte, 0, chunkSize)
}

// Commit puts a frame, which may lie within the tail or anywhere else, right behind
// the frame before, and returns it as it lies there. Frames that are too large are
// left where they are.
func (a *Arena) Commit(frame []byte) []byte {
	if len(frame) > cap(a.chunk)-len(a.chunk) {
		if len(frame) > chunkSize/4 {
			return frame
		}
		a.turn()
	}
	n := len(a.chunk)
	a.chunk = append(a.chunk, frame...)
	return a.chunk[n:]
}

// Reset forgets all frames. No queue may hold one: queues own what they hold after
// a flush.
func (a *Arena) Reset() {
	for _, c := range a.full {
		if poison {
			clear(c[:cap(c)])
		}
		if len(a.free) < keepChunks {
			a.free = append(a.free, c)
		}
	}
	clear(a.full)
	a.full = a.full[:0]
	if poison {
		clear(a.chunk)
	}
	a.chunk = a.chunk[:0]
}
