package memory

import (
	"sync"
	"time"
)

// agenda knows what expires when: a binary heap with one timer, which runs only while the
// heap has elements.
type agenda struct {
	clock func() int64
	due   func(e expiring, now int64) // called without a lock held

	mu       sync.Mutex
	heap     []note
	timer    *time.Timer
	armedFor int64 // 0 if the timer is not armed
	last     int64 // time of the last sweep
	sweeping bool
	closed   bool
}

// sweepPause is the least time between two sweeps. Reads and publishes look at the clock
// themselves, so sweeps only give memory back.
const sweepPause = int64(time.Second)

// sweepBatch is how many elements a sweep takes off the heap under one lock.
const sweepBatch = 256

// expiring is something on the agenda. It embeds slot.
type expiring interface {
	place() *slot
	// expire is called when the time has come. It ends with schedule or cancel if the
	// broker still has the element.
	expire(b *Broker, now int64)
}

// slot is the index of an element on the heap, plus one. The agenda's lock guards it.
type slot struct{ index int }

func (s *slot) place() *slot { return s }

type note struct {
	at   int64
	what expiring
}

// schedule puts e on the agenda or moves it there.
func (a *agenda) schedule(e expiring, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	i := e.place().index - 1
	if i < 0 {
		i = len(a.heap)
		a.heap = append(a.heap, note{})
	}
	a.put(i, note{at, e})
	a.fix(i)
	a.arm()
}

// cancel takes e off the agenda if it is there.
func (a *agenda) cancel(e expiring) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := e.place().index - 1; i >= 0 {
		a.remove(i)
	}
}

func (a *agenda) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.heap = nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

// arm sets the timer to the first note, unless it is set to an earlier time.
func (a *agenda) arm() {
	if a.sweeping || len(a.heap) == 0 {
		return
	}
	at := max(a.heap[0].at, a.last+sweepPause)
	if a.armedFor != 0 && a.armedFor <= at {
		return
	}
	a.armedFor = at
	wait := time.Duration(max(at-a.clock(), 0))
	if a.timer == nil {
		a.timer = time.AfterFunc(wait, a.sweep)
		return
	}
	a.timer.Reset(wait)
}

// sweep expires everything that is due.
func (a *agenda) sweep() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sweeping || a.closed {
		return
	}
	a.sweeping, a.armedFor = true, 0
	now := a.clock()
	var batch []expiring
	for {
		batch = a.take(batch[:0], now)
		if len(batch) == 0 {
			break
		}
		a.mu.Unlock()
		for _, e := range batch {
			a.due(e, now)
		}
		a.mu.Lock()
	}
	a.sweeping, a.last = false, now
	if !a.closed {
		a.arm()
	}
}

// take moves due elements off the heap into batch.
func (a *agenda) take(batch []expiring, now int64) []expiring {
	for len(batch) < sweepBatch && len(a.heap) > 0 && a.heap[0].at <= now {
		batch = append(batch, a.heap[0].what)
		a.remove(0)
	}
	return batch
}

func (a *agenda) remove(i int) {
	a.heap[i].what.place().index = 0
	end := len(a.heap) - 1
	moved := a.heap[end]
	a.heap[end] = note{}
	a.heap = a.heap[:end]
	if i < end {
		a.put(i, moved)
		a.fix(i)
	}
	if cap(a.heap) > 1024 && len(a.heap) < cap(a.heap)/4 {
		a.heap = append(make([]note, 0, cap(a.heap)/2), a.heap...)
	}
}

func (a *agenda) put(i int, n note) {
	a.heap[i] = n
	n.what.place().index = i + 1
}

// fix restores the order of the heap after the note at i changed.
func (a *agenda) fix(i int) {
	n := a.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if a.heap[parent].at <= n.at {
			break
		}
		a.put(i, a.heap[parent])
		i = parent
	}
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			break
		}
		if right := child + 1; right < len(a.heap) && a.heap[right].at < a.heap[child].at {
			child = right
		}
		if a.heap[child].at >= n.at {
			break
		}
		a.put(i, a.heap[child])
		i = child
	}
	a.put(i, n)
}
