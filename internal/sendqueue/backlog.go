package sendqueue

import "time"

// maxArrivals is how many arrivals a backlog has; further ones become part of the last one.
const maxArrivals = 16

// backlog notes when the bytes came in a queue that a Writer did not empty.
type backlog struct {
	taken    uint64    // bytes that were taken since the queue has a backlog
	arrivals []arrival // the first one has the oldest byte
}

// arrival is for the bytes up to one, which came at a time in Unix nanoseconds.
type arrival struct {
	until uint64
	at    int64
}

func (b *backlog) add(size int, now int64) {
	until, last := b.taken+uint64(size), len(b.arrivals)-1
	switch {
	case last >= 0 && b.arrivals[last].until >= until:
	case last >= 0 && (b.arrivals[last].at == now || len(b.arrivals) == maxArrivals):
		b.arrivals[last].until = until
	default:
		b.arrivals = append(b.arrivals, arrival{until, now})
	}
}

func (b *backlog) take(n int) {
	b.taken += uint64(n)
	for len(b.arrivals) > 1 && b.arrivals[0].until <= b.taken {
		b.arrivals = b.arrivals[:copy(b.arrivals, b.arrivals[1:])]
	}
}

// note is called after a flush that took n bytes and left something in q.
func (p *Pool) note(q *Queue, n int) {
	b := p.backlogs[q]
	if b == nil {
		if p.backlogs == nil {
			p.backlogs = make(map[*Queue]*backlog)
		}
		b = new(backlog)
		p.backlogs[q] = b
		b.add(q.size, p.Now)
		return
	}
	b.add(q.size+n, p.Now)
	b.take(n)
}

// forget is called when q is empty.
func (p *Pool) forget(q *Queue) {
	if len(p.backlogs) > 0 {
		delete(p.backlogs, q)
	}
}

// Waiting measures the bytes in the queues of a Pool that Writers did not take.
type Waiting struct {
	Queues, Bytes, Largest int
	// Oldest is how long the oldest of them has waited at least, measured by turns.
	Oldest time.Duration
}

// Add adds the figures of another Pool.
func (w *Waiting) Add(o Waiting) {
	w.Queues += o.Queues
	w.Bytes += o.Bytes
	w.Largest, w.Oldest = max(w.Largest, o.Largest), max(w.Oldest, o.Oldest)
}

// Waiting measures the waiting bytes. It takes time only for queues that have some.
func (p *Pool) Waiting() (w Waiting) {
	for q, b := range p.backlogs {
		w.Add(Waiting{1, q.size, q.size, time.Duration(p.Now - b.arrivals[0].at)})
	}
	return w
}
