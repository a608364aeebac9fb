// Package route knows for each channel which loops of a node have subscribers, and
// keeps the broker subscribed to just these channels.
package route

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
)

// Table of the routes of a node. Any goroutine may use it.
type Table struct {
	broker  broker.Broker
	lastID  atomic.Int64
	seed    maphash.Seed
	buckets [256]bucket
}

type bucket struct {
	mu sync.RWMutex
	m  map[string]*Route
}

// Route is one channel that has, or is about to have, subscribers.
type Route struct {
	id int64
	// loops with subscribers.
	loops counts
	// users is the number of those who hold the route, guarded by its bucket.
	users int32

	// subscribed, and what counts in loops, is guarded by mu, which serialises the
	// broker's subscribe and unsubscribe of this channel.
	subscribed bool
	mu         sync.Mutex
}

// ID replaces the channel's name for clients that negotiated compaction.
func (r *Route) ID() int64 { return r.id }

// Loops that may have subscribers now.
func (r *Route) Loops() Loops { return Loops(r.loops.taken.Load()) }

// New returns an empty table for a broker.
func New(b broker.Broker) *Table {
	r := &Table{broker: b, seed: maphash.MakeSeed()}
	for i := range r.buckets {
		r.buckets[i].m = make(map[string]*Route)
	}
	return r
}

func (t *Table) bucket(ch string) *bucket {
	return &t.buckets[maphash.String(t.seed, ch)%uint64(len(t.buckets))]
}

// Find returns the route of a channel, or nil.
func (t *Table) Find(ch string) *Route {
	b := t.bucket(ch)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.m[ch]
}

// acquire returns the route of a channel, which stays until it is released.
func (t *Table) acquire(ch string) *Route {
	b := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.m[ch]
	if r == nil {
		r = &Route{id: t.lastID.Add(1)}
		b.m[ch] = r
	}
	r.users++
	return r
}

func (t *Table) release(ch string, r *Route) {
	b := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(b.m, ch)
	}
}

// Add routes a channel to a loop and returns the channel's ID. When it returns,
// what the broker accepts from now on reaches the loop.
func (t *Table) Add(ctx context.Context, ch string, loop int) (id int64, err error) {
	r := t.acquire(ch)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loops.add(loop)
	if !r.subscribed {
		if err := t.broker.Subscribe(ctx, ch); err != nil {
			// A failure, such as a context that ended, does not prove that nothing came
			// of it.
			_ = t.broker.Unsubscribe(context.WithoutCancel(ctx), ch)
			r.loops.remove(loop)
			t.release(ch, r)
			return 0, err
		}
		r.subscribed = true
	}
	return r.id, nil
}

// Remove undoes Add.
func (t *Table) Remove(ctx context.Context, ch string, loop int) error {
	r := t.Find(ch)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer t.release(ch, r)
	if r.loops.remove(loop); !r.loops.empty() || !r.subscribed {
		return nil
	}
	r.subscribed = false
	return t.broker.Unsubscribe(ctx, ch)
}

// Size is the number of channels.
func (t *Table) Size() int {
	n := 0
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.RLock()
		n += len(b.m)
		b.mu.RUnlock()
	}
	return n
}
