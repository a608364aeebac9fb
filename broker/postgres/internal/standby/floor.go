package standby

import (
	"math"
	"sync"
	"time"
)

// Row is a row of an outbox. A server that has it has all rows of its shard that were committed before.
type Row struct {
	ID      int64
	Created time.Time // zero: not known
}

const maxChanged = 4096

// Floor is what an answer about a shard must contain at least, because this node has seen it. Any goroutine may call the
// methods.
type Floor struct {
	mu  sync.Mutex
	top Row
	// changed has the channels that changed without a row in the outbox, and the last row before the change.
	changed map[string]int64
	all     int64 // the same for all channels; unknown if the row is not known

	blinded uint64
}

const unknown = math.MaxInt64

// Raise notes that this node has seen a row, and all that was committed before it.
func (f *Floor) Raise(row Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if row.ID > f.top.ID || row.ID == f.top.ID && f.top.Created.IsZero() {
		f.top = row
	}
}

// Reset says that the database went back to row.
func (f *Floor) Reset(row Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.top, f.changed, f.all = row, nil, row.ID // the earlier changes of the channels are as uncertain
}

// Changed says that a channel has changed without a row in the outbox; row was the newest after that.
func (f *Floor) Changed(ch string, row int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.changed) >= maxChanged {
		for ch, after := range f.changed {
			if after < f.top.ID {
				delete(f.changed, ch)
			}
		}
	}
	if len(f.changed) >= maxChanged {
		for _, after := range f.changed {
			f.all = max(f.all, after) // stays unknown if it is
		}
		clear(f.changed)
	}
	if f.changed == nil {
		f.changed = make(map[string]int64)
	}
	f.changed[ch] = max(f.changed[ch], row)
}

// Blind notes that channels have changed, and the newest row after that is not known.
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
func (f *Floor) Sees(row int64, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == unknown && f.blinded == n {
		f.all = row
	}
}

// Of returns the row that a server must have to answer about a channel. ok is false if no row shows enough: none was
// read yet, or the channel has changed since.
func (f *Floor) Of(ch string) (row Row, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	after, changed := f.changed[ch]
	if changed && after < f.top.ID {
		delete(f.changed, ch)
		changed = false
	}
	return f.top, f.top.ID > f.all && !changed && !f.top.Created.IsZero()
}

// IsEmpty tells whether this node has seen no row of the shard.
func (f *Floor) IsEmpty() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.top.ID == 0
}
