package outbox

import "github.com/gyrohq/gyro/protocol"

// Framer puts an envelope around messages; a transport.Framer is one.
type Framer interface {
	Encoding() protocol.Encoding
	Headroom() int
	Frame(buf []byte) []byte
}

// MaxGather is the number of bytes from which on no further message joins those
// that are gathered for one frame: readers like frames of moderate size, and what an
// envelope costs is nothing then.
const MaxGather = 16 << 10

// gathering is a frame in the making: the replies that one connection gets in a row.
// A loop has one, since its connections hardly ever take turns at each reply.
type gathering struct {
	q      *Queue // nil if there is none
	framer Framer
	buf    []byte // headroom, then messages
}

// Open returns a buffer. The caller appends one message to it and gives it to Add.
// Messages that are added in a row go out in one frame. If nothing is added,
// nothing changes.
func (q *Queue) Open(p *Pool, f Framer) []byte {
	g := &p.gathering
	switch {
	case g.q == q && g.empty():
		return g.buf
	case g.q == q && len(g.buf) < MaxGather:
		return Separate(g.buf, f.Encoding())
	}
	g.close(p)
	g.q, g.framer = q, f
	g.buf = append(g.buf[:0], make([]byte, f.Headroom())...) // on the spot: no allocation
	return g.buf
}

// Separate prepares a frame that ends with a message for one more (client-protocol.md
// section 3).
func Separate(frame []byte, e protocol.Encoding) []byte {
	if e == protocol.JSON {
		return append(frame, '\n')
	}
	return frame
}

// Add takes the buffer of Open with the message behind, and returns the number of
// bytes that now wait.
func (q *Queue) Add(p *Pool, buf []byte) int {
	g := &p.gathering
	q.size += len(buf) - len(g.buf)
	g.buf = buf
	return q.size
}

// collect puts what is gathered for q into it.
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
	if cap(g.buf) > chunkSize/4 || len(frame) > chunkSize/4 {
		g.buf = nil // the frame may stay where it is
	}
	q.Push(p, p.Arena.Commit(frame))
}

func (g *gathering) empty() bool { return len(g.buf) == g.framer.Headroom() }
