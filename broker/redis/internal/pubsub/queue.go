package pubsub

import (
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
)

const (
	// run messages are handled before their room is released.
	run = 16
	// relieveAfter is how long the handler may keep the reader.
	relieveAfter = 50 * time.Millisecond
)

// message waits for the handler. Without channel it is a note: a function that is called at this place in the order.
type message struct {
	channel, payload []byte
	memory           *Chunk
	note             func()
}

func (m *message) size() int { return len(m.channel) + len(m.payload) }

// queue brings messages from the reader to the handler, in order. Usually the reader calls the handler itself, which
// saves a switch between goroutines that costs as much as the rest. If the handler takes too long, the reader is
// relieved: another goroutine reads from then on, and the old reader empties the queue.
//
// When the queue is full, the reader waits, and messages gather at the server. If the queue is not half empty again in a
// bounded time, messages without room are dropped until it is. Otherwise the server would close the connection, and all
// messages would be lost.
type queue struct {
	stall       time.Duration
	done        <-chan struct{} // closed: the queue ends
	handle      func(m *message)
	overflow    func(channels []string)
	takeDropped func(channel, payload []byte) bool
	spawn       func(func())  // starts a goroutine
	room        chan struct{} // wakes a reader that waits for room

	mu      sync.Mutex
	reader  *readerID // the goroutine that may put messages
	busy    bool      // a goroutine is in the handler
	direct  time.Time // since when the reader is that goroutine; zero: it is not
	handOff bool      // the reader must leave the handler to another goroutine
	waiting backlog
	drops   drops
}

type readerID struct{ _ byte }

func newQueue(cfg *Config, done <-chan struct{}, handle func(m *message), spawn func(func())) *queue {
	return &queue{
		stall: cfg.MaxStall, done: done, handle: handle, overflow: cfg.Overflow, takeDropped: cfg.TakeDropped, spawn: spawn,
		room: make(chan struct{}, 1), waiting: backlog{max: cfg.MaxQueue, maxBytes: cfg.MaxQueueBytes},
	}
}

// setReader: messages of other goroutines are discarded from now on.
func (q *queue) setReader(reader *readerID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reader, q.direct = reader, time.Time{}
	enginekit.Signal(q.room) // a reader that waits for room finds out that it was replaced
}

// relieve makes next the reader if the present reader is in the handler for too long, or is saturated: it hardly waits
// for the network. After a saturated reader, another goroutine gets the handler in any case.
func (q *queue) relieve(next *readerID, saturated bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handOff = saturated
	if q.direct.IsZero() || !saturated && time.Since(q.direct) < relieveAfter {
		return false
	}
	q.reader, q.direct = next, time.Time{}
	return true
}

// put returns false if the reader has been relieved, and must not read any more. The messages arrived at the given time.
// The batch belongs to the caller again.
func (q *queue) put(reader *readerID, batch []message, at time.Time) (goOn bool) {
	q.mu.Lock()
	if q.reader != reader {
		q.mu.Unlock()
		return false
	}
	if q.handOff {
		q.startDrain()
		q.handOff = false
	}
	if q.busy {
		goOn = q.enqueue(reader, batch)
		if !goOn || q.busy || q.waiting.empty() {
			q.mu.Unlock()
			return goOn
		}
		batch, at = nil, time.Now() // the handler became free while the reader waited for room
	}
	q.busy, q.direct = true, at
	q.mu.Unlock()
	return q.handleAll(reader, batch)
}

// handleAll calls the handler in the goroutine of the reader, which has set busy: for a batch, then for what was queued
// meanwhile.
func (q *queue) handleAll(reader *readerID, batch []message) (goOn bool) {
	for i := range batch {
		if q.ended() {
			return false
		}
		q.handle(&batch[i])
	}
	q.mu.Lock()
	if q.reader == reader && q.waiting.empty() {
		q.busy, q.direct = false, time.Time{}
		q.mu.Unlock()
		return true
	}
	q.mu.Unlock()
	q.drain() // notes, or what another reader has put meanwhile
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader != reader {
		return false
	}
	q.direct = time.Time{}
	return true
}

func (q *queue) ended() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// enqueue appends or drops messages, with mu held. It returns false if the reader was relieved while it waited for room.
func (q *queue) enqueue(reader *readerID, batch []message) (goOn bool) {
	for len(batch) > 0 {
		switch m := &batch[0]; {
		case q.waiting.add(m):
			batch = batch[1:]
		case q.waiting.dropping:
			if !q.takeDropped(m.channel, m.payload) {
				q.drops.add(m.channel)
			}
			batch = batch[1:]
		default:
			q.waiting.dropping = !q.wait()
			if q.reader != reader {
				return false
			}
		}
	}
	return true
}

// wait reports whether room came in time. mu is held, but for the wait.
func (q *queue) wait() bool {
	select {
	case <-q.room: // an old signal
	default:
	}
	if q.waiting.fullSince.IsZero() {
		q.waiting.fullSince = time.Now()
	}
	deadline := q.waiting.fullSince.Add(q.stall)
	q.mu.Unlock()
	defer q.mu.Lock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-q.room:
		return true
	case <-timer.C:
	case <-q.done:
	}
	return false
}

// note has f called when everything before is handled. It never waits.
func (q *queue) note(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.add(&message{note: f})
	q.startDrain()
}

// startDrain needs mu. It does nothing while a goroutine is in the handler.
func (q *queue) startDrain() {
	if !q.busy {
		q.busy = true
		q.spawn(q.drain)
	}
}

// drain empties the queue. The caller has set busy.
func (q *queue) drain() {
	var batch []message
	for {
		batch = q.take(batch)
		if batch == nil {
			return
		}
		for i := range batch {
			if q.ended() {
				return
			}
			q.handle(&batch[i])
			if i%run == run-1 || i == len(batch)-1 {
				q.release(batch[i-i%run : i+1])
			}
		}
	}
}

// take resets busy if the queue is empty. It uses the memory of handled later on.
func (q *queue) take(handled []message) []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting.take(handled)
	q.busy = batch != nil
	return batch
}

func (q *queue) release(handled []message) {
	size := 0
	for i := range handled {
		size += handled[i].size()
	}
	n := len(handled)
	clear(handled) // they hold chunks in memory
	q.mu.Lock()
	defer q.mu.Unlock()
	halfEmpty := q.waiting.release(n, size)
	enginekit.Signal(q.room)
	if q.drops.due(halfEmpty) {
		channels := q.drops.take()
		q.waiting.add(&message{note: func() { q.overflow(channels) }})
	}
}

func (q *queue) counts() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.count, q.drops.count
}
