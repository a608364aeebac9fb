package sendqueue

import (
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// MaxGather is the bytes from which a frame takes no further message: clients handle frames of moderate size better.
const MaxGather = 16 << 10

// gathering is a frame that still takes messages for one connection. A loop has one, as replies to different connections
// rarely alternate.
type gathering struct {
	q      *Queue // nil: there is no such frame
	framer transport.Framer
	buf    []byte // headroom, then messages
}

// Open returns a buffer, to which the caller appends one message for Add. Messages that are added in a row go out in one
// frame.
func (q *Queue) Open(p *Pool, f transport.Framer) []byte {
	g := &p.gathering
	switch {
	case g.q == q && g.empty() && g.framer == f:
		return g.buf
	case g.q == q && !g.empty() && len(g.buf) < MaxGather:
		return Separate(g.buf, f.Encoding())
	}
	g.close(p)
	g.q, g.framer = q, f
	g.buf = append(g.buf[:0], make([]byte, f.Headroom())...) // the compiler does not allocate it
	return g.buf
}

// Separate appends the separator between messages of a frame.
func Separate(frame []byte, e protocol.Encoding) []byte {
	if e == protocol.JSON {
		return append(frame, '\n')
	}
	return frame
}

// Add queues the message in the buffer of Open, and returns the number of bytes that wait.
func (q *Queue) Add(p *Pool, buf []byte) int {
	g := &p.gathering
	q.size += len(buf) - len(g.buf)
	g.buf = buf
	return q.size
}

func (q *Queue) collect(p *Pool) {
	if p.gathering.q == q {
		p.gathering.close(p)
	}
}

func (g *gathering) close(p *Pool) {
	q := g.q
	if q == nil {
		return
	}
	g.q = nil
	if g.empty() {
		return
	}
	q.size -= len(g.buf) - g.framer.Headroom()
	frame := g.framer.Frame(g.buf)
	switch {
	case len(frame) > large: // it stays where it is
		g.buf = p.Arena.swap(g.buf)
	case cap(g.buf) > MaxLarge:
		g.buf = nil
		fallthrough
	default:
		frame = p.Arena.Commit(frame)
	}
	q.Push(p, frame)
}

func (g *gathering) empty() bool { return len(g.buf) == g.framer.Headroom() }
