package stand

import (
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
	mu     sync.Mutex
	counts Counts
	// lossy is set if nobody promised that nothing is lost.
	lossy bool
	// last is the number that came last.
	last int64
	// anew is set when the subscriber was told that it missed something: the next
	// number may be any.
	anew bool
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
	case b.anew:
		b.counts.Missed += max(0, int(n-b.last-1))
	case n <= b.last:
		b.counts.Duplicated++
		return
	case b.lossy:
		b.counts.Missed += int(n - b.last - 1)
	default:
		b.counts.Lost += int(n - b.last - 1)
	}
	b.last, b.anew = n, false
}

// told notes an answer with recovered:false.
func (b *book) told() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Told++
	b.anew = true
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
