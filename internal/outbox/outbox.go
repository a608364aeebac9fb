// Package outbox holds the frames that wait for a connection to take them.
package outbox

// Writer takes as many bytes as it can without blocking; transport.Conn is one.
type Writer interface {
	Write(frames [][]byte) (n int, err error)
}

// Pool keeps the backing arrays of emptied queues, so that a connection with
// little to send holds no memory for sending. It belongs to one loop.
type Pool struct{ free [][][]byte }

const (
	// A queue that needs an array starts with one for this many frames, about what
	// a busy turn gathers.
	startFrames = 16
	// Arrays that grew beyond this are left to the garbage collector.
	keepFrames = 1024
	// At most this many arrays are kept.
	keepArrays = 4096
)

func (p *Pool) get() [][]byte {
	if n := len(p.free); n > 0 {
		a := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		return a
	}
	return make([][]byte, 0, startFrames)
}

func (p *Pool) put(a [][]byte) {
	if cap(a) <= keepFrames && len(p.free) < keepArrays {
		clear(a)
		p.free = append(p.free, a[:0])
	}
}

// Queue is the FIFO of one connection. The frames are shared between
// connections and never modified. The zero value is empty; a queue must not be
// copied. Not safe for concurrent use.
type Queue struct {
	// frames lie in one as long as there is a single frame, which most turns bring;
	// then in an array of the pool. It is nil when the queue is empty.
	frames [][]byte
	one    [1][]byte
	size   int
}

// Push appends a frame and returns the number of bytes that now wait.
func (q *Queue) Push(p *Pool, frame []byte) int {
	switch {
	case q.frames == nil:
		q.one[0] = frame
		q.frames = q.one[:]
	case cap(q.frames) == 1:
		q.frames = append(p.get(), q.one[0], frame)
		q.one[0] = nil
	default:
		q.frames = append(q.frames, frame)
	}
	q.size += len(frame)
	return q.size
}

// Size is the number of bytes that wait.
func (q *Queue) Size() int { return q.size }

// Flush offers everything to w. What w does not take stays.
func (q *Queue) Flush(p *Pool, w Writer) error {
	if q.size == 0 {
		return nil
	}
	n, err := w.Write(q.frames)
	if err != nil {
		return err
	}
	if n == q.size {
		q.Drop(p)
		return nil
	}
	q.advance(n)
	return nil
}

// advance forgets the first n bytes.
func (q *Queue) advance(n int) {
	q.size -= n
	done := 0
	for n > 0 && n >= len(q.frames[done]) {
		n -= len(q.frames[done])
		done++
	}
	kept := copy(q.frames, q.frames[done:])
	clear(q.frames[kept:])
	q.frames = q.frames[:kept]
	if n > 0 {
		q.frames[0] = q.frames[0][n:]
	}
}

// Take empties the queue and hands over what was in it.
func (q *Queue) Take() [][]byte {
	frames := q.frames
	if cap(frames) == 1 {
		// The array stays with the queue.
		frames = [][]byte{q.one[0]}
		q.one[0] = nil
	}
	q.frames, q.size = nil, 0
	return frames
}

// Drop forgets everything that waits.
func (q *Queue) Drop(p *Pool) {
	if cap(q.frames) > 1 {
		p.put(q.frames)
	} else {
		q.one[0] = nil
	}
	q.frames, q.size = nil, 0
}
