package standby

import (
	"math"
	"sync"
	"time"
)

// Mark is a row of an outbox. A server that has it has all rows of its shard that were committed before.
type Mark struct {
	ID      int64
	Created time.Time // zero: not known
}

// maxHeld is how many channels of a shard a Floor holds one by one.
const maxHeld = 4096

// Floor is what an answer about the channels of a shard must contain at least, because this node has seen it already. Any
// goroutine may call the methods.
type Floor struct {
	mu  sync.Mutex
	top Mark
	// held has channels that changed without a row in the outbox, and the last row before the change.
	held map[string]int64
	all  int64 // the same for all channels; unknown if the row is not known

	blinded uint64
}

const unknown = math.MaxInt64

// Raise notes that this node has seen a row, and everything that was committed before it.
func (f *Floor) Raise(m Mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.ID > f.top.ID || m.ID == f.top.ID && f.top.Created.IsZero() {
		f.top = m
	}
}

// Reset says that the database went back, and m is the newest row that it still has.
func (f *Floor) Reset(m Mark) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.top, f.held, f.all = m, nil, m.ID // the earlier changes of the channels are as uncertain
}

// Hold says that a channel has changed without a row in the outbox, and that m was the newest row after that.
func (f *Floor) Hold(ch string, m int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.held) >= maxHeld {
		for ch, after := range f.held {
			if after < f.top.ID {
				delete(f.held, ch)
			}
		}
	}
	if len(f.held) >= maxHeld {
		for _, after := range f.held {
			f.all = max(f.all, after) // stays unknown if it is
		}
		clear(f.held)
	}
	if f.held == nil {
		f.held = make(map[string]int64)
	}
	f.held[ch] = max(f.held[ch], m)
}

// Blind notes that channels have changed, and that the newest row after that is not known.
func (f *Floor) Blind() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = unknown
	f.blinded++
}

// Blindness returns how often Blind was called, 0 if Sees was called since.
func (f *Floor) Blindness() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all != unknown {
		return 0
	}
	return f.blinded
}

// Sees says which row was the newest some time after Blindness returned n.
func (f *Floor) Sees(m int64, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == unknown && f.blinded == n {
		f.all = m
	}
}

// Of returns the row that a server must have to answer about a channel. ok is false if no row shows enough: none was read
// yet, or the channel has changed since.
func (f *Floor) Of(ch string) (m Mark, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	after, held := f.held[ch]
	if held && after < f.top.ID {
		delete(f.held, ch)
		held = false
	}
	return f.top, f.top.ID > f.all && !held && !f.top.Created.IsZero()
}

// IsEmpty tells whether this node has seen no row of the shard.
func (f *Floor) IsEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.top.ID == 0
}
