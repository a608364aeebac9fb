// Package account checks the publications that clients receive: publishers number them, and repeat a number until it is
// acknowledged. Each subscriber keeps a book of the numbers, and finds those that are lost or came twice.
package account

import (
	"fmt"
	"sync"
	"time"
)

// Counts of the publications that subscribers received in a span of time.
type Counts struct {
	// Received counts publications, recovered ones included.
	Received int
	// Lost is how many numbers did not come without a reported gap.
	Lost int
	// Duplicated is how many numbers came again, or after a later one.
	Duplicated int
	// Told counts reported gaps: subscriptions with recovered:false.
	Told int
	// Missed is how many numbers did not come in a reported gap, or where publications may be lost.
	Missed int
	// Insufficient is how often the server ended a subscription or a connection for insufficient state. The recovery
	// after it may succeed.
	Insufficient int
	Reconnects   int
	// Refused counts errors that a client must not see, such as a terminal disconnect.
	Refused int
	// Silence is the longest time between two publications of a subscriber.
	Silence time.Duration
}

func (c *Counts) Add(other Counts) {
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

// Book checks the publications of a channel at a subscriber. They are numbered 1, 2, 3 … . Any goroutine may call its
// methods.
type Book struct {
	Owner string
	// Ledger of the publisher. Evidence is called with each number that is lost or comes twice.
	Ledger   *Ledger
	Evidence func(string)
	Lossy    bool

	mu     sync.Mutex
	counts Counts
	last   int64
	// free is the highest number that may be missing or come once more, after a reported gap.
	free int64
	// missing are the numbers below last that are in doubt and did not come yet.
	missing map[int64]bool
	// at is when the last publication came, or the span began.
	at time.Time
}

func (b *Book) Receive(n int64) {
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
	case b.missing[n]:
		delete(b.missing, n)
	default:
		b.counts.Duplicated++
		b.Evidence(fmt.Sprintf("number %d came behind %d", n, b.last))
	}
}

func (b *Book) skip(from, to int64) {
	lost := 0
	for n := from; n < to; n++ {
		switch {
		case b.Ledger.isDoubtful(n):
			if b.missing == nil {
				b.missing = make(map[int64]bool)
			}
			b.missing[n] = true
		case n <= b.free || b.Lossy:
			b.counts.Missed++
		default:
			lost++
		}
	}
	if lost > 0 {
		b.counts.Lost += lost
		b.Evidence(fmt.Sprintf("number %d came behind %d: %d are lost", to, from-1, lost))
	}
}

// WasTold notes an answer with recovered:false. The server read the top of the stream before it, so it concerns no
// number that is published from now on.
func (b *Book) WasTold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.Told++
	b.free = max(b.last, b.Ledger.Begun.Load())
}

func (b *Book) Note(change func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.counts)
}

// Reached returns the highest number that came.
func (b *Book) Reached() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Read returns the counts, and with anew sets them to zero. A silence that goes on counts for the new span as a whole.
func (b *Book) Read(anew bool) Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.counts
	if anew {
		b.counts = Counts{}
	}
	return counts
}
