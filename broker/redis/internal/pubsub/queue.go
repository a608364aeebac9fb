package pubsub

import (
	"sync"
	"time"
)

const (
	// run is how many messages are handed over between two looks at the queue.
	run = 16
	// maxLost is the most channels with dropped messages that are told apart.
	maxLost = 1 << 16
	// lostDelay is the longest time before drops are told while they go on.
	lostDelay = time.Second
)

// message waits for the handler. Without channel it is a note: call is done in its
// place.
type message struct {
	channel, payload []byte
	note             func()
}

func (m *message) size() int { return len(m.channel) + len(m.payload) }

// queue holds what the reader received until the handler takes it. When it is full
// the reader waits, so that messages gather at the server; but if the handler has not
// caught up in a bounded time, that is, the queue is not half empty, what finds no
// room is dropped until it has, and the channels are told. Otherwise the server would
// drop the connection, and with it everything.
type queue struct {
	max, maxBytes int
	stall         time.Duration
	done          <-chan struct{} // ends both sides

	mu        sync.Mutex
	in        []message
	waiting   int       // in the queue or taken, not handled yet
	bytes     int       // of these
	fullSince time.Time // zero if it was half empty since
	dropping  bool
	lost      map[string]struct{}
	lostAll   bool // more than maxLost
	lostSince time.Time
	dropped   uint64

	filled chan struct{} // wakes the handler
	room   chan struct{} // wakes the reader
}

func newQueue(cfg *Config, done <-chan struct{}) *queue {
	return &queue{
		max: cfg.MaxQueue, maxBytes: cfg.MaxQueueBytes, stall: cfg.MaxStall, done: done,
		lost:   make(map[string]struct{}),
		filled: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// push appends messages. It is called from one goroutine at a time.
func (q *queue) push(batch []message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(batch) > 0 && q.add(&batch[0]) {
			batch = batch[1:]
		}
		signal(q.filled)
		if len(batch) == 0 {
			return
		}
		if !q.dropping {
			q.dropping = !q.wait()
			continue
		}
		q.drop(&batch[0])
		batch = batch[1:]
	}
}

// note has f called when everything pushed before is handled. It may be called from
// any goroutine and never waits.
func (q *queue) note(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(&message{note: f})
	signal(q.filled)
}

// add fails if there is no room. One message always has room, however large, and
// so have notes, of which there are few.
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
	case <-q.room: // of the past
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

// handle hands everything to f, and channels of dropped messages to overflow, until
// the queue is done.
func (q *queue) handle(f func(m *message), overflow func(channels []string)) {
	var batch []message
	for {
		batch = q.take(batch)
		for i := range batch {
			select {
			case <-q.done:
				return
			default:
			}
			f(&batch[i])
			if i%run == run-1 || i == len(batch)-1 {
				if channels, lost := q.release(batch[i-i%run : i+1]); lost {
					overflow(channels)
				}
			}
		}
		if len(batch) == 0 {
			select {
			case <-q.filled:
			case <-q.done:
				return
			}
		}
	}
}

// take returns what is in the queue and leaves batch, which is handled, in its place.
func (q *queue) take(batch []message) []message {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, q.in = q.in, batch[:0]
	return batch
}

// release gives the room of handled messages back, and returns the channels with
// dropped messages if it is time to tell.
func (q *queue) release(handled []message) (channels []string, lost bool) {
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
	lost = len(q.lost) > 0 || q.lostAll
	if !lost || !calm && time.Since(q.lostSince) < lostDelay {
		return nil, false
	}
	if !q.lostAll {
		for ch := range q.lost {
			channels = append(channels, ch)
		}
	}
	clear(q.lost)
	q.lostAll = false
	return channels, true
}

// counts returns how many messages wait and how many were dropped.
func (q *queue) counts() (waiting int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.dropped
}
