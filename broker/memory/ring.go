package memory

// ring is a queue of publications, oldest first. It grows, by a quarter if it is long, up to the size of the stream, and
// shrinks when that is lowered, so that little room is unused.
type ring struct {
	buf   []compact
	head  int // index in buf of the oldest
	count int
}

// push drops the oldest publications until at most size are left.
func (r *ring) push(pub compact, size int) {
	for r.count >= size {
		r.buf[r.head] = compact{}
		r.head = r.index(1)
		r.count--
	}
	switch {
	case r.count == len(r.buf):
		r.resize(min(r.count+max(min(r.count, 4), r.count/4, 1), size))
	case len(r.buf) > 8 && r.count < len(r.buf)/4:
		r.resize(len(r.buf) / 2)
	}
	r.count++
	r.buf[r.index(r.count-1)] = pub
}

func (r *ring) at(i int) *compact { return &r.buf[r.index(i)] }

func (r *ring) index(i int) int {
	i += r.head
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	return i
}

func (r *ring) resize(to int) {
	buf := make([]compact, to)
	n := copy(buf, r.buf[r.head:min(r.head+r.count, len(r.buf))])
	copy(buf[n:], r.buf[:r.count-n])
	r.buf, r.head = buf, 0
}
