package memory

import (
	"sync"
	"time"
)

// expiryQueue is a binary heap with one timer, which runs only while the heap has elements.
type expiryQueue struct {
	clock func() int64
	due   func(e expiring, now int64) // called without a lock held

	mu       sync.Mutex
	heap     []queued
	timer    *time.Timer
	armedFor int64 // 0 if the timer is not armed
	last     int64 // time of the last sweep
	sweeping bool
	closed   bool
}

// sweepPause: reads and publishes look at the clock themselves, so sweeps only give memory back.
const sweepPause = int64(time.Second)

const sweepBatch = 256

// expiring embeds queuePlace.
type expiring interface {
	place() *queuePlace
	// expire ends with schedule or cancel if the broker still has the element.
	expire(b *Broker, now int64)
}

// queuePlace is the index of an element on the heap, plus one. The lock of the queue guards it.
type queuePlace struct{ index int }

func (p *queuePlace) place() *queuePlace { return p }

type queued struct {
	at   int64
	what expiring
}

func (q *expiryQueue) schedule(e expiring, at int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	i := e.place().index - 1
	if i < 0 {
		i = len(q.heap)
		q.heap = append(q.heap, queued{})
	}
	q.put(i, queued{at, e})
	q.fix(i)
	q.arm()
}

func (q *expiryQueue) cancel(e expiring) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := e.place().index - 1; i >= 0 {
		q.remove(i)
	}
}

func (q *expiryQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.heap = nil
	if q.timer != nil {
		q.timer.Stop()
	}
}

// arm keeps an earlier time.
func (q *expiryQueue) arm() {
	if q.sweeping || len(q.heap) == 0 {
		return
	}
	at := max(q.heap[0].at, q.last+sweepPause)
	if q.armedFor != 0 && q.armedFor <= at {
		return
	}
	q.armedFor = at
	wait := time.Duration(max(at-q.clock(), 0))
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.sweep)
		return
	}
	q.timer.Reset(wait)
}

func (q *expiryQueue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sweeping || q.closed {
		return
	}
	q.sweeping, q.armedFor = true, 0
	now := q.clock()
	var batch []expiring
	for {
		batch = q.take(batch[:0], now)
		if len(batch) == 0 {
			break
		}
		q.mu.Unlock()
		for _, e := range batch {
			q.due(e, now)
		}
		q.mu.Lock()
	}
	q.sweeping, q.last = false, now
	if !q.closed {
		q.arm()
	}
}

func (q *expiryQueue) take(batch []expiring, now int64) []expiring {
	for len(batch) < sweepBatch && len(q.heap) > 0 && q.heap[0].at <= now {
		batch = append(batch, q.heap[0].what)
		q.remove(0)
	}
	return batch
}

func (q *expiryQueue) remove(i int) {
	q.heap[i].what.place().index = 0
	end := len(q.heap) - 1
	moved := q.heap[end]
	q.heap[end] = queued{}
	q.heap = q.heap[:end]
	if i < end {
		q.put(i, moved)
		q.fix(i)
	}
	if cap(q.heap) > 1024 && len(q.heap) < cap(q.heap)/4 {
		q.heap = append(make([]queued, 0, cap(q.heap)/2), q.heap...)
	}
}

func (q *expiryQueue) put(i int, n queued) {
	q.heap[i] = n
	n.what.place().index = i + 1
}

func (q *expiryQueue) fix(i int) {
	n := q.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if q.heap[parent].at <= n.at {
			break
		}
		q.put(i, q.heap[parent])
		i = parent
	}
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			break
		}
		if right := child + 1; right < len(q.heap) && q.heap[right].at < q.heap[child].at {
			child = right
		}
		if q.heap[child].at >= n.at {
			break
		}
		q.put(i, q.heap[child])
		i = child
	}
	q.put(i, n)
}
