package pubsub

import (
	"sync"
	"time"
)

const (
	// run is how many messages are handed over before their room in the queue is released.
	run = 16
	// maxLost is the most channels with dropped messages that are remembered.
	maxLost = 1 << 16
	// lostDelay is the longest time until overflow is called while drops go on.
	lostDelay = time.Second
	// relieveAfter is how long the handler may keep the reader.
	relieveAfter = 50 * time.Millisecond
)

// message waits for the handler. A message without channel is a note: a function that is called
// at this place in the order.
type message struct {
	channel, payload []byte
	memory           *Chunk
	note             func()
}

func (m *message) size() int { return len(m.channel) + len(m.payload) }

// queue brings messages from the reader to the handler, in order. Usually the reader calls the
// handler itself, which saves a switch between goroutines that costs as much as the rest. If
// the handler takes too long, the reader is relieved: another goroutine reads from then on,
// and the old reader empties the queue.
//
// So messages gather only while the handler is behind. When the queue is full, the reader
// waits, and messages gather at the server. If the queue is not half empty again in a bounded
// time, messages without room are dropped until it is, and overflow gets their channels.
// Otherwise the server would close the connection, and all messages would be lost.
type queue struct {
	max, maxBytes int
	stall         time.Duration
	done          <-chan struct{} // closed: the queue ends
	f             func(m *message)
	overflow      func(channels []string)
	aside         func(channel, payload []byte) bool
	spawn         func(func()) // starts a goroutine

	mu        sync.Mutex
	reader    *token    // the goroutine that may bring messages
	direct    time.Time // since when the reader is in the handler; zero: it is not
	busy      bool      // a goroutine is in the handler
	apart     bool      // the reader must leave the handler to another goroutine
	in        []message
	spare     []message // memory for in
	waiting   int       // messages in the queue or taken, not handled yet
	bytes     int       // of the waiting messages
	fullSince time.Time // zero if the queue was half empty since
	dropping  bool
	lost      map[string]struct{}
	lostAll   bool // more than maxLost
	lostSince time.Time
	dropped   uint64

	room chan struct{} // wakes the reader
}

// token stands for one goroutine that reads.
type token struct{ _ byte }

func newQueue(cfg *Config, done <-chan struct{}, f func(m *message), spawn func(func())) *queue {
	return &queue{
		max: cfg.MaxQueue, maxBytes: cfg.MaxQueueBytes, stall: cfg.MaxStall, done: done,
		f: f, overflow: cfg.Overflow, aside: cfg.Aside, spawn: spawn, lost: make(map[string]struct{}), room: make(chan struct{}, 1),
	}
}

// setReader sets the goroutine that brings messages from now on; nil: none. Messages of other goroutines are discarded.
func (q *queue) setReader(t *token) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reader, q.direct = t, time.Time{}
	signal(q.room) // a reader that waits for room finds out that it was replaced
}

// relieve makes t the reader if the present reader is in the handler, and has been for too long or is saturated. A saturated
// reader hardly waits for the network; the next reader then leaves the handler to another goroutine, even if no goroutine is
// in it at the moment.
func (q *queue) relieve(t *token, saturated bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apart = saturated
	if q.direct.IsZero() || !saturated && time.Since(q.direct) < relieveAfter {
		return false
	}
	q.reader, q.direct = t, time.Time{}
	return true
}

// bring hands over messages that arrived at the given time. It returns false if the reader t
// has been relieved, and must not read any more. The batch belongs to the caller again.
func (q *queue) bring(t *token, batch []message, at time.Time) bool {
	q.mu.Lock()
	if q.reader != t {
		q.mu.Unlock()
		return false
	}
	if q.apart && !q.busy {
		q.busy = true
		q.spawn(q.drain)
	}
	q.apart = false
	if q.busy {
		if present := q.push(t, batch); !present || q.busy || len(q.in) == 0 {
			q.mu.Unlock()
			return present
		}
		batch, at = nil, time.Now() // the handler became free while the reader waited for room
	}
	q.busy, q.direct = true, at
	q.mu.Unlock()
	for i := range batch {
		if q.ended() {
			return false
		}
		q.f(&batch[i])
	}
	q.mu.Lock()
	if q.reader == t && len(q.in) == 0 {
		q.busy, q.direct = false, time.Time{}
		q.mu.Unlock()
		return true
	}
	q.mu.Unlock()
	q.drain() // notes, or what another reader has brought meanwhile
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reader != t {
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

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// push appends messages, or drops them, with mu held. It returns false if the reader was
// relieved while it waited for room.
func (q *queue) push(t *token, batch []message) bool {
	for {
		for len(batch) > 0 && q.add(&batch[0]) {
			batch = batch[1:]
		}
		if len(batch) == 0 {
			return true
		}
		if !q.dropping {
			q.dropping = !q.wait()
			if q.reader != t {
				return false
			}
			continue
		}
		q.drop(&batch[0])
		batch = batch[1:]
	}
}

// note makes the handler's goroutine call f when everything before is handled. Any goroutine
// may call note. It never waits.
func (q *queue) note(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(&message{note: f})
	if !q.busy {
		q.busy = true
		q.spawn(q.drain)
	}
}

// add returns false if there is no room. An empty queue has room for any message, and there is
// always room for notes, which are few.
func (q *queue) add(m *message) bool {
	size := m.size()
	if m.note == nil && q.waiting > 0 && (q.waiting >= q.max || q.bytes+size > q.maxBytes) {
		return false
	}
	q.in = append(q.in, *m)
	q.waiting++
	q.bytes += size
	return true
}

// wait waits for room and reports whether it came in time.
func (q *queue) wait() bool {
	select {
	case <-q.room: // an old signal
	default:
	}
	if q.fullSince.IsZero() {
		q.fullSince = time.Now()
	}
	deadline := q.fullSince.Add(q.stall)
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

func (q *queue) drop(m *message) {
	if q.aside(m.channel, m.payload) {
		return
	}
	q.dropped++
	if len(q.lost) == 0 && !q.lostAll {
		q.lostSince = time.Now()
	}
	if q.lostAll {
		return
	}
	if _, known := q.lost[string(m.channel)]; !known {
		if len(q.lost) >= maxLost {
			q.lostAll = true
			clear(q.lost)
			return
		}
		q.lost[string(m.channel)] = struct{}{}
	}
}

// drain hands over messages until the queue is empty. The caller has set busy.
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
			q.f(&batch[i])
			if i%run == run-1 || i == len(batch)-1 {
				q.release(batch[i-i%run : i+1])
			}
		}
	}
}

// take returns the messages in the queue, which may use the memory of batch later on. If there
// are none, it resets busy and returns nil.
func (q *queue) take(batch []message) []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	if batch != nil {
		q.spare = batch[:0]
	}
	if len(q.in) == 0 {
		q.busy = false
		return nil
	}
	batch, q.in, q.spare = q.in, q.spare, nil
	return batch
}

// release gives back the room of handled messages.
func (q *queue) release(handled []message) {
	size := 0
	for i := range handled {
		size += handled[i].size()
	}
	n := len(handled)
	clear(handled) // they hold chunks in memory
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting -= n
	q.bytes -= size
	signal(q.room)
	calm := q.waiting <= q.max/2 && q.bytes <= q.maxBytes/2
	if calm {
		q.dropping, q.fullSince = false, time.Time{}
	}
	if len(q.lost) == 0 && !q.lostAll || !calm && time.Since(q.lostSince) < lostDelay {
		return
	}
	var channels []string
	for ch := range q.lost { // none if lostAll
		channels = append(channels, ch)
	}
	clear(q.lost)
	q.lostAll = false
	// The note comes after everything that was received before.
	q.add(&message{note: func() { q.overflow(channels) }})
}

// counts returns how many messages wait and how many were dropped.
func (q *queue) counts() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.dropped
}
