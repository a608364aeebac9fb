package session

// backlog keeps received messages, in the order in which they came, until their commands can be dispatched. The zero value
// is empty. One goroutine uses it.
type backlog struct {
	frames [][]byte
	size   int
}

// Size is the number of bytes that wait.
func (f *backlog) Size() int { return f.size }

// Add copies a message.
func (f *backlog) Add(frame []byte) {
	f.size += len(frame)
	f.frames = append(f.frames, append([]byte(nil), frame...))
}

// First returns the rest of the first message; nil if no message waits.
func (f *backlog) First() []byte {
	if len(f.frames) == 0 {
		return nil
	}
	return f.frames[0]
}

// Take removes n bytes of the first message.
func (f *backlog) Take(n int) {
	f.size -= n
	if f.frames[0] = f.frames[0][n:]; len(f.frames[0]) == 0 {
		f.frames[0] = nil
		f.frames = f.frames[1:]
	}
}
