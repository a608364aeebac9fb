package observe

import (
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Totals counts what does not happen on loops. The zero value is ready for use; the program
// gives it to the node in Observer.Totals. Any goroutine may use it. The methods that add are
// for the node. They do nothing if t is nil.
type Totals struct {
	parts [parts]part

	mu     sync.Mutex
	closes map[Close]uint64
}

// parts is how many copies of the counters there are, so that goroutines on several processors
// rarely add to the same one. It is a power of two.
const parts = 8

// part is one copy of the counters. It fills whole cache lines.
type part struct {
	sent, received [NumEvents]atomic.Uint64
	actions        [NumActions]atomic.Uint64
	_              [4]uint64
}

// Close is how a transport ended a connection.
type Close struct {
	// Transport is Transport.Name.
	Transport string
	// Code of the transport's protocol: for WebSocket the status code, 0 for none.
	Code uint16
}

func (t *Totals) part() *part { return &t.parts[rand.Uint32()%parts] }

// Sent is how many events the node's engines have accepted. What an engine ignored as a
// duplicate counts too.
func (t *Totals) Sent(e Event) (n uint64) {
	for i := range t.parts {
		n += t.parts[i].sent[e].Load()
	}
	return n
}

// Received is how many events the node has received from its engines, those that it sent
// itself included.
func (t *Totals) Received(e Event) (n uint64) {
	for i := range t.parts {
		n += t.parts[i].received[e].Load()
	}
	return n
}

// Actions is how often the node did something, whether it succeeded or not.
func (t *Totals) Actions(a Action) (n uint64) {
	for i := range t.parts {
		n += t.parts[i].actions[a].Load()
	}
	return n
}

// Closes returns the numbers of connections that transports ended with a message of their own
// protocol: for WebSocket a Close frame that the server sent first. Answers to the Close frames
// of clients do not count.
func (t *Totals) Closes() map[Close]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.closes)
}

// AddSent adds n events.
func (t *Totals) AddSent(e Event, n int) {
	if t != nil {
		t.part().sent[e].Add(uint64(n))
	}
}

// AddReceived adds an event.
func (t *Totals) AddReceived(e Event) {
	if t != nil {
		t.part().received[e].Add(1)
	}
}

// AddAction adds n actions.
func (t *Totals) AddAction(a Action, n int) {
	if t != nil {
		t.part().actions[a].Add(uint64(n))
	}
}

// AddClose adds the end of a connection.
func (t *Totals) AddClose(c Close) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closes == nil {
		t.closes = make(map[Close]uint64)
	}
	t.closes[c]++
}
