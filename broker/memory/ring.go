package memory

import "github.com/gyrohq/gyro/channel"

// ring is a queue of publications, oldest first. It doubles up to the size of the stream, and
// shrinks when that size is lowered. So pushing takes constant amortized time.
type ring struct {
	buf   []*channel.Publication
	head  int // index in buf of the oldest
	count int
}

// push appends pub and drops the oldest ones until at most size are left.
func (r *ring) push(pub *channel.Publication, size int) {
	for r.count >= size {
		r.buf[r.head] = nil
		r.head = r.index(1)
		r.count--
	}
	switch {
	case r.count == len(r.buf):
		r.resize(min(max(2*r.count, 1), size))
	case len(r.buf) > 8 && r.count < len(r.buf)/4:
		r.resize(len(r.buf) / 2)
	}
	r.count++
	r.buf[r.index(r.count-1)] = pub
}

// at returns the i-th oldest.
func (r *ring) at(i int) *channel.Publication { return r.buf[r.index(i)] }

// last returns the newest, nil if there is none.
func (r *ring) last() *channel.Publication {
	if r.count == 0 {
		return nil
	}
	return r.at(r.count - 1)
}

func (r *ring) index(i int) int {
	if i += r.head; i >= len(r.buf) {
		i -= len(r.buf)
	}
	return i
}

func (r *ring) resize(to int) {
	buf := make([]*channel.Publication, to)
	n := copy(buf, r.buf[r.head:min(r.head+r.count, len(r.buf))])
	copy(buf[n:], r.buf[:r.count-n])
	r.buf, r.head = buf, 0
}
