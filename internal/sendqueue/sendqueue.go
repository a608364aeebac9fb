// Package sendqueue holds the frames that wait for a connection to take them.
package sendqueue

import "github.com/gyrohq/gyro/protocol"

// Writer takes as many bytes as it can without blocking; transport.Conn is one.
type Writer interface {
	Write(frames [][]byte) (n int, err error)
}

// Pool is memory that the sessions of a loop share, so that a connection with nothing to send or read holds none.
type Pool struct {
	Arena   Arena
	free    [][][]byte
	one     [1][]byte
	command *protocol.Command
	written uint64
	// Now is the time of the turn in Unix nanoseconds, which the loop sets.
	Now      int64
	backlogs map[*Queue]*backlog

	gathering gathering
}

// Written is the number of bytes that Writers have taken.
func (p *Pool) Written() uint64 { return p.written }

// TakeCommand returns an empty command until PutCommand.
func (p *Pool) TakeCommand() *protocol.Command {
	c := p.command
	if c == nil {
		return new(protocol.Command)
	}
	p.command = nil
	return c
}

// PutCommand takes a command back.
func (p *Pool) PutCommand(c *protocol.Command) {
	*c = protocol.Command{}
	p.command = c
}

const (
	// A queue's first array has room for this many runs.
	startRuns = 16
	// Larger arrays are left to the garbage collector.
	maxPooledRuns = 1024
	// At most this many arrays are kept.
	maxPooledArrays = 4096
)

func (p *Pool) get() [][]byte {
	if n := len(p.free); n > 0 {
		a := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		return a
	}
	return make([][]byte, 0, startRuns)
}

func (p *Pool) put(a [][]byte) {
	if a != nil && cap(a) <= maxPooledRuns && len(p.free) < maxPooledArrays {
		clear(a)
		p.free = append(p.free, a[:0])
	}
}

// Queue is the FIFO of one connection. Until the flush at the end of the turn its frames lie in the loop's arena and are
// shared; they are never modified. The queue copies only the rest that a flush leaves. The zero value is empty. Not safe
// for concurrent use.
type Queue struct {
	// last is the newest run of frames side by side in memory, nearly always the only one.
	last  []byte
	older [][]byte // array of the pool, or nil
	size  int
	owned bool // last is a copy, and the only run
}

// Push appends a frame, and returns the number of bytes that wait.
func (q *Queue) Push(p *Pool, frame []byte) int {
	q.collect(p)
	q.size += len(frame)
	n := len(q.last)
	switch {
	case q.owned:
		q.last = append(q.last, frame...)
	case n == 0:
		q.last = frame
	case follows(q.last, frame):
		q.last = q.last[:n+len(frame)]
	default:
		if q.older == nil {
			q.older = p.get()
		}
		q.older = append(q.older, q.last)
		q.last = frame
	}
	return q.size
}

func follows(run, frame []byte) bool {
	n := len(run)
	return len(frame) > 0 && cap(run)-n >= len(frame) && &run[:n+1][n] == &frame[0]
}

// Size is the number of bytes that wait.
func (q *Queue) Size() int { return q.size }

// Flush offers all frames to w, and keeps what w does not take.
func (q *Queue) Flush(p *Pool, w Writer) error {
	if q.size == 0 {
		return nil
	}
	q.collect(p)
	frames := q.runs(p)
	n, err := w.Write(frames)
	p.one[0] = nil
	if err != nil {
		return err
	}
	p.written += uint64(n)
	if n == q.size {
		q.Drop(p)
		return nil
	}
	q.retain(p, n)
	p.note(q, n)
	return nil
}

// runs are valid until p is used again.
func (q *Queue) runs(p *Pool) [][]byte {
	if q.older == nil {
		p.one[0] = q.last
		return p.one[:]
	}
	q.older = append(q.older, q.last)
	q.last = nil
	return q.older
}

func (q *Queue) retain(p *Pool, n int) {
	if q.owned {
		q.last, q.size = q.last[n:], q.size-n
		return
	}
	rest := make([]byte, 0, q.size-n)
	for _, run := range q.older {
		if n < len(run) {
			rest = append(rest, run[n:]...)
		}
		n = max(n-len(run), 0)
	}
	if n < len(q.last) {
		rest = append(rest, q.last[n:]...)
	}
	q.Drop(p)
	q.last, q.size, q.owned = rest, len(rest), true
}

// Take empties the queue and returns its bytes. They are valid until the turn ends.
func (q *Queue) Take(p *Pool) [][]byte {
	q.collect(p)
	var frames [][]byte
	if q.size > 0 {
		frames = append(q.older, q.last)
	}
	p.forget(q)
	*q = Queue{}
	return frames
}

// Drop forgets everything that waits.
func (q *Queue) Drop(p *Pool) {
	if p.gathering.q == q {
		p.gathering.q = nil
	}
	p.put(q.older)
	p.forget(q)
	*q = Queue{}
}
