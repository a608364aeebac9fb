// Package backlog keeps received messages until their commands can be dispatched.
package backlog

// Frames are messages in the order in which they came. The zero value is empty. They are for one goroutine.
type Frames struct {
	frames [][]byte
	size   int
}

// Size is how many bytes wait.
func (f *Frames) Size() int { return f.size }

// Add copies a message.
func (f *Frames) Add(frame []byte) {
	f.size += len(frame)
	f.frames = append(f.frames, append([]byte(nil), frame...))
}

// First returns what is left of the first message; nil if none waits.
func (f *Frames) First() []byte {
	if len(f.frames) == 0 {
		return nil
	}
	return f.frames[0]
}

// Take removes n bytes of the first message.
func (f *Frames) Take(n int) {
	f.size -= n
	if f.frames[0] = f.frames[0][n:]; len(f.frames[0]) == 0 {
		f.frames[0] = nil
		f.frames = f.frames[1:]
	}
}
