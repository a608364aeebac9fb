package stand

import (
	"fmt"
	"sync"
	"time"
)

// Counts are what books say about a span of time.
type Counts struct {
	// Received publications; those that were recovered are among them.
	Received int
	// Lost are numbers that were skipped though nobody told that something is missing.
	Lost int
	// Duplicated are numbers that came again, or after a later one.
	Duplicated int
	// Told is how often a subscription was answered with recovered:false.
	Told int
	// Missed are the numbers that were skipped where that was told, or to be expected.
	Missed int
	// Insufficient is how often the server ended a subscription or a connection for
	// insufficient state; the recovery that follows may well succeed.
	Insufficient int
	// Reconnects is how often a connection was made again.
	Reconnects int
	// Refused are errors that a client must not see, such as a terminal disconnect.
	Refused int
	// Silence is the longest time between two publications of a subscriber.
	Silence time.Duration
}

func (c *Counts) add(other Counts) {
	c.Received += other.Received
	c.Lost += other.Lost
	c.Duplicated += other.Duplicated
	c.Told += other.Told
	c.Missed += other.Missed
	c.Insufficient += other.Insufficient
	c.Reconnects += other.Reconnects
	c.Refused += other.Refused
	c.Silence = max(c.Silence, other.Silence)
}

// book checks what a subscriber receives of a channel whose publications are
// numbered 1, 2, 3 … . Its methods may be called from any goroutine.
type book struct {
	owner string
	// ledger of the publisher, and evidence, which is told of what is lost or comes twice.
	ledger   *ledger
	evidence func(string)
	// lossy is set if nobody promised that nothing is lost.
	lossy bool

	mu     sync.Mutex
	counts Counts
	// last is the highest number that came.
	last int64
	// free is set when the subscriber was told that it missed something: the numbers up
	// to it may be missing, or come once more.
	free int64
	// absent are the numbers below last that nobody promised, and that did not come yet.
	absent map[int64]bool
	// at is when the last publication came, or the span began.
	at time.Time
}

// receive notes a publication's number.
func (b *book) receive(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.at.IsZero() {
		b.counts.Silence = max(b.counts.Silence, now.Sub(b.at))
	}
	b.at = now
	b.counts.Received++
	switch {
	case n > b.last:
		b.skip(b.last+1, n)
		b.last = n
	case n <= b.free:
	case b.absent[n]:
		delete(b.absent, n)
	default:
		b.counts.Duplicated++
		b.evidence(fmt.Sprintf("number %d came behind %d", n, b.last))
	}
}

// skip notes that the numbers of [from, to) did not come before to.
func (b *book) skip(from, to int64) {
	lost := 0
	for n := from; n < to; n++ {
		switch {
		case b.ledger.isDoubtful(n):
			if b.absent == nil {
				b.absent = make(map[int64]bool)
			}
			b.absent[n] = true
		case n <= b.free || b.lossy:
			b.counts.Missed++
		default:
			lost++
		}
	}
	if lost > 0 {
		b.counts.Lost += lost
		b.evidence(fmt.Sprintf("number %d came behind %d: %d are lost", to, from-1, lost))
	}
}

// told notes an answer with recovered:false. The stream's top was read before it: what
// is published from now on is behind that.
func (b *book) told() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Told++
	b.free = max(b.last, b.ledger.underWay())
}

// note changes the counts.
func (b *book) note(change func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.counts)
}

// reached is the number that came last.
func (b *book) reached() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// read returns the counts, and starts over if anew is set. A silence that has begun
// belongs to the new span as a whole.
func (b *book) read(anew bool) Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.counts
	if anew {
		b.counts = Counts{}
	}
	return counts
}
