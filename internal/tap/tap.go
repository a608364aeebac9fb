// Package tap watches the messages of single users and channels, for operators. A node keeps the messages of a tap in a
// bounded buffer until the asking node fetches them, some times a second, by a survey. A tap ends by itself when no node
// fetches. Without taps, the node loads one pointer for each message.
package tap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/observe"
)

const (
	// MaxTaps is how many taps a node has at a time.
	MaxTaps = 16
	// lease is how long a tap lives without being fetched.
	lease = 10 * time.Second
	// maxEvents and maxBytes bound the events that wait in a tap, maxFetched a fetch.
	maxEvents  = 4096
	maxBytes   = 4 << 20
	maxFetched = 512 << 10
	// maxMessage bounds the bytes of a message that is shown.
	maxMessage = 32 << 10
	// eventSize is what an event takes besides its message, in bytes.
	eventSize = 256
	// maxWaiting bounds the commands whose reply a tap of a channel awaits.
	maxWaiting = 1024
)

var (
	ErrTooMany = fmt.Errorf("there are %d taps already, which is the most", MaxTaps)
	errKind    = errors.New(`a tap is for a "user" or a "channel"`)
)

// Table has the taps of a node; nil has none. Any goroutine may use it.
type Table struct {
	node   string
	active atomic.Pointer[taps] // nil: there is none

	mu   sync.Mutex
	byID map[string]*tap
}

// New returns a table for the node with a UID.
func New(node string) *Table { return &Table{node: node, byID: make(map[string]*tap)} }

// Watching reports whether there are taps.
func (t *Table) Watching() bool { return t.current() != nil }

func (t *Table) current() *taps {
	if t == nil {
		return nil
	}
	return t.active.Load()
}

type taps struct {
	node            string
	users, channels map[string][]*tap
}

type tap struct {
	observe.Tap
	id     string
	expiry *time.Timer

	mu      sync.Mutex
	events  []observe.Tapped
	bytes   int
	dropped uint64
	// waiting are commands for the channel of the tap, without a reply.
	waiting map[command]struct{}
}

type command struct {
	client string
	id     uint32
}

// Fetch returns the events of a tap since the last call, and how much was dropped meanwhile. A new ID begins a tap,
// which ends 10 s after the last call, or with End.
func (t *Table) Fetch(id string, of observe.Tap) (events []observe.Tapped, dropped uint64, err error) {
	if of.Kind != observe.TapUser && of.Kind != observe.TapChannel {
		return nil, 0, errKind
	}
	t.mu.Lock()
	one := t.byID[id]
	if one == nil {
		if len(t.byID) >= MaxTaps {
			t.mu.Unlock()
			return nil, 0, ErrTooMany
		}
		one = &tap{Tap: of, id: id, waiting: make(map[command]struct{})}
		one.expiry = time.AfterFunc(lease, func() { t.End(id) })
		t.byID[id] = one
		t.publish()
	}
	one.expiry.Reset(lease)
	t.mu.Unlock()
	events, dropped = one.take()
	return events, dropped, nil
}

// End ends a tap.
func (t *Table) End(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.byID[id]; one != nil {
		one.expiry.Stop()
		delete(t.byID, id)
		t.publish()
	}
}

// Close ends all taps.
func (t *Table) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	ids := slices.Collect(maps.Keys(t.byID))
	t.mu.Unlock()
	for _, id := range ids {
		t.End(id)
	}
}

// publish makes a new snapshot of the active taps. The lock is held.
func (t *Table) publish() {
	if len(t.byID) == 0 {
		t.active.Store(nil)
		return
	}
	next := &taps{node: t.node, users: make(map[string][]*tap), channels: make(map[string][]*tap)}
	for _, one := range t.byID {
		in := next.users
		if one.Kind == observe.TapChannel {
			in = next.channels
		}
		in[one.Entity] = append(in[one.Entity], one)
	}
	t.active.Store(next)
}

func (t *tap) add(e observe.Tapped) {
	size := eventSize + len(e.Message) + len(e.Protobuf)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= maxEvents || t.bytes+size > maxBytes {
		t.dropped++
		return
	}
	t.events = append(t.events, e)
	t.bytes += size
}

// take removes the oldest events, as many as may be fetched at once.
func (t *tap) take() (events []observe.Tapped, dropped uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, bytes := 0, 0
	for n < len(t.events) && bytes < maxFetched {
		bytes += eventSize + len(t.events[n].Message) + len(t.events[n].Protobuf)
		n++
	}
	events = t.events[:n:n]
	t.bytes -= bytes
	if t.events = slices.Clone(t.events[n:]); len(t.events) == 0 {
		t.events, dropped, t.dropped = nil, t.dropped, 0
	}
	return events, dropped
}

// awaits notes a command whose reply belongs to the channel of the tap.
func (t *tap) awaits(c command) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) < maxWaiting {
		t.waiting[c] = struct{}{}
	}
}

func (t *tap) forget(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.waiting {
		if c.client == client {
			delete(t.waiting, c)
		}
	}
}

func (t *tap) awaited(c command) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.waiting[c]
	delete(t.waiting, c)
	return ok
}
