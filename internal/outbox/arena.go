package outbox

// chunkSize is what an arena allocates at a time.
const chunkSize = 64 << 10

// Arena is where a loop makes frames. They lie one behind the other, so that a
// queue holds those that follow each other as one run of bytes, and they are all
// forgotten at once when everything is flushed: a frame costs no allocation. The
// zero value is ready for use.
type Arena struct{ chunk []byte }

// Tail is the free space of the arena, of length 0. A frame that is appended to it
// becomes part of the arena by Commit.
func (a *Arena) Tail() []byte {
	if cap(a.chunk) == 0 {
		a.chunk = make([]byte, 0, chunkSize)
	}
	return a.chunk[len(a.chunk):]
}

// Commit puts a frame, which may lie within the tail or anywhere else, right behind
// the frame before, and returns it as it lies there. Frames that are too large are
// left where they are.
func (a *Arena) Commit(frame []byte) []byte {
	n := len(a.chunk)
	if len(frame) > cap(a.chunk)-n {
		if len(frame) > chunkSize/4 {
			return frame
		}
		// Whoever holds frames of the old chunk keeps it alive.
		n, a.chunk = 0, make([]byte, 0, chunkSize)
	}
	a.chunk = append(a.chunk, frame...)
	return a.chunk[n:]
}

// Reset forgets all frames. No queue may hold one: queues own what they hold after
// a flush.
func (a *Arena) Reset() {
	if poison {
		clear(a.chunk)
	}
	a.chunk = a.chunk[:0]
}
