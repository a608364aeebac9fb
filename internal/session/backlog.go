package session

// backlog has received messages, in their order, until their commands can be dispatched. The zero value is empty.
type backlog struct {
	frames [][]byte
	size   int
}

func (f *backlog) Size() int { return f.size }

// Add copies a message.
func (f *backlog) Add(frame []byte) {
	f.size += len(frame)
	f.frames = append(f.frames, append([]byte(nil), frame...))
}

// First is the rest of the first message; nil if there is none.
func (f *backlog) First() []byte {
	if len(f.frames) == 0 {
		return nil
	}
	return f.frames[0]
}

func (f *backlog) Take(n int) {
	f.size -= n
	if f.frames[0] = f.frames[0][n:]; len(f.frames[0]) == 0 {
		f.frames[0] = nil
		f.frames = f.frames[1:]
	}
}
