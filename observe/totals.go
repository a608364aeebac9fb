package observe

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/channel"
)

// Totals counts events that do not happen on loops, by the namespace of the channel. The zero value is ready, for
// Observer.Totals. Any goroutine may use it. The methods that add are for the node, and do nothing for nil.
type Totals struct {
	unnamed space // of channels without a namespace, and of events without a channel
	named   atomic.Pointer[map[string]*space]

	mu         sync.Mutex
	closes     map[Close]uint64
	suppressed map[Suppressed]uint64
}

type space [parts]part

// parts is a power of two: how many copies of the counters keep goroutines on several processors apart.
const parts = 8

// part is one copy of the counters. It fills whole cache lines.
type part struct {
	sent, received [NumEvents]atomic.Uint64
	actions        [NumActions]atomic.Uint64
	_              [(8 - (2*int(NumEvents)+int(NumActions))%8) % 8]uint64
}

type Close struct {
	Transport string
	// Code of the transport's protocol: for WebSocket the status code, 0 for none.
	Code uint16
}

type Suppressed struct {
	// Event that was not sent: a publication, or the change of a map.
	Event     Event
	Reason    channel.SuppressReason
	Namespace string
}

func (t *Totals) in(namespace string) *part {
	s := &t.unnamed
	if namespace != "" {
		if s = t.space(namespace); s == nil {
			s = t.grow(namespace)
		}
	}
	return &s[rand.Uint32()%parts]
}

func (t *Totals) space(namespace string) *space {
	if namespace == "" {
		return &t.unnamed
	}
	if named := t.named.Load(); named != nil {
		return (*named)[namespace]
	}
	return nil
}

func (t *Totals) grow(namespace string) *space {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.space(namespace); s != nil { // another goroutine was faster
		return s
	}
	named := make(map[string]*space)
	if old := t.named.Load(); old != nil {
		maps.Copy(named, *old)
	}
	s := new(space)
	named[namespace] = s
	t.named.Store(&named)
	return s
}

// Namespaces returns the namespaces that have counters, the empty one first.
func (t *Totals) Namespaces() []string {
	list := []string{""}
	if named := t.named.Load(); named != nil {
		list = slices.AppendSeq(list, maps.Keys(*named))
	}
	slices.Sort(list)
	return list
}

func (t *Totals) sum(namespace string, of func(*part) *atomic.Uint64) (n uint64) {
	s := t.space(namespace)
	if s == nil {
		return 0
	}
	for i := range s {
		n += of(&s[i]).Load()
	}
	return n
}

// Sent is how many events the node's engines have accepted, in channels of a namespace. Ignored duplicates count.
func (t *Totals) Sent(e Event, namespace string) uint64 {
	return t.sum(namespace, func(p *part) *atomic.Uint64 { return &p.sent[e] })
}

// Received is how many events the node has received from its engines, including its own.
func (t *Totals) Received(e Event, namespace string) uint64 {
	return t.sum(namespace, func(p *part) *atomic.Uint64 { return &p.received[e] })
}

// Actions is how often the node did something, whether it succeeded or not.
func (t *Totals) Actions(a Action, namespace string) uint64 {
	return t.sum(namespace, func(p *part) *atomic.Uint64 { return &p.actions[a] })
}

// Closes returns the numbers of connections that transports ended with a message of their own protocol: for WebSocket a
// Close frame that the server sent first, and no answer to one of a client.
func (t *Totals) Closes() map[Close]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.closes)
}

// Suppressed returns how many publications and changes of maps the engines suppressed, by cause.
func (t *Totals) Suppressed() map[Suppressed]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.suppressed)
}

// AddSent adds n events in channels of a namespace.
func (t *Totals) AddSent(e Event, namespace string, n int) {
	if t != nil {
		t.in(namespace).sent[e].Add(uint64(n))
	}
}

// AddReceived adds an event.
func (t *Totals) AddReceived(e Event, namespace string) {
	if t != nil {
		t.in(namespace).received[e].Add(1)
	}
}

// AddAction adds n actions.
func (t *Totals) AddAction(a Action, namespace string, n int) {
	if t != nil {
		t.in(namespace).actions[a].Add(uint64(n))
	}
}

// AddSuppressed counts a publication or a change that an engine suppressed.
func (t *Totals) AddSuppressed(s Suppressed) {
	if t != nil {
		count(&t.mu, &t.suppressed, s)
	}
}

// AddClose adds the end of a connection.
func (t *Totals) AddClose(c Close) {
	if t != nil {
		count(&t.mu, &t.closes, c)
	}
}

func count[K comparable](mu *sync.Mutex, m *map[K]uint64, key K) {
	mu.Lock()
	defer mu.Unlock()
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[key]++
}
