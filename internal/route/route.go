// Package route knows for each channel which loops of a node have subscribers, and
// keeps the broker subscribed to just these channels.
package route

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/readmap"
)

// Table of the routes of a node. Any goroutine may use it.
type Table struct {
	broker broker.Broker
	// leaver is nil for a broker in this process, which is left at once.
	leaver  *leaver
	lastID  atomic.Int64
	size    atomic.Int64 // routes with subscribers
	buckets [Buckets]bucket
	checked atomic.Int64 // routes with a Check
}

// Buckets is the number of parts of a table. A hash of the channel decides, so all have about the same number of
// channels.
const Buckets = 256

// bucket has a lock for changes only.
type bucket struct {
	mu sync.Mutex
	m  readmap.Map[*Route]
}

// Route is a channel that has subscribers, gets its first one, or has just lost the last.
type Route struct {
	id int64
	// loops with subscribers, guarded by mu. Any goroutine may read loops.taken.
	loops counts
	// users is the number of subscribers and departures of the route, guarded by the bucket.
	users int32
	// subscribed is set if the broker is subscribed; after a failed call the broker may be although it is unset. mu
	// guards it, and departure.
	subscribed bool
	departure  departureState
	check      Check // guarded by the bucket
	// mu serialises the broker's subscribe and unsubscribe of this channel.
	mu lock
}

// ID replaces the channel's name for clients that negotiated compaction.
func (r *Route) ID() int64 { return r.id }

func (r *Route) Loops() Loops { return Loops(r.loops.taken.Load()) }

// New returns an empty table for a broker.
func New(b broker.Broker) *Table {
	t := &Table{broker: b}
	if !b.Describe().Local {
		t.leaver = newLeaver(t)
	}
	return t
}

// Close stops the leaver and waits for it. Channels that it has not left stay subscribed, because the broker is closed
// next.
func (t *Table) Close() {
	if t.leaver != nil {
		t.leaver.close()
	}
}

func (t *Table) bucket(ch string) (b *bucket, hash uint64) {
	hash = readmap.Hash(ch)
	return &t.buckets[hash%Buckets], hash
}

// Find returns the route of a channel, or nil.
func (t *Table) Find(ch string) *Route {
	b, hash := t.bucket(ch)
	r, _ := b.m.Get(hash, ch)
	return r
}

func (t *Table) acquire(ch string) *Route {
	b, hash := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.m.Get(hash, ch)
	if !ok {
		r = &Route{id: t.lastID.Add(1)}
		b.m.Set(hash, ch, r)
	}
	r.users++
	return r
}

func (t *Table) release(ch string, r *Route) {
	b, hash := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.users--; r.users == 0 {
		b.m.Delete(hash, ch)
		if r.check != (Check{}) {
			t.checked.Add(-1)
		}
	}
}

// Add counts a subscriber on a loop and returns the channel's ID. Publications that the broker accepts after Add has
// returned reach the loop. Calls for different channels do not wait for each other.
func (t *Table) Add(ctx context.Context, ch string, loop int) (id int64, err error) {
	r := t.acquire(ch)
	if err := r.mu.lock(ctx); err != nil {
		t.release(ch, r)
		return 0, err
	}
	defer r.mu.unlock()
	t.count(r, loop)
	if !r.subscribed {
		if err := t.broker.Subscribe(ctx, ch); err != nil {
			t.uncount(r, loop)
			// The broker may have subscribed in spite of the error, if ctx ended for example.
			_ = t.leave(context.WithoutCancel(ctx), ch, r)
			return 0, err
		}
		r.subscribed = true
	}
	if r.departure == leaving {
		r.departure = returned
	}
	return r.id, nil
}

// Remove undoes an Add. The error is from a broker in this process.
func (t *Table) Remove(ctx context.Context, ch string, loop int) error {
	r := t.Find(ch)
	if r == nil {
		return nil
	}
	_ = r.mu.lock(context.Background()) // the subscriber has gone whether ctx ends or not
	defer r.mu.unlock()
	t.uncount(r, loop)
	return t.leave(ctx, ch, r)
}

// leave gives up one use of a route whose lock is held. Without subscribers, it leaves the channel, at once or by the
// leaver.
func (t *Table) leave(ctx context.Context, ch string, r *Route) error {
	switch {
	case !r.loops.empty() || r.departure != staying:
		t.release(ch, r)
		return nil
	case t.leaver != nil:
		r.departure = leaving
		t.leaver.add(departure{ch: ch, route: r}) // takes over the use
		return nil
	}
	defer t.release(ch, r)
	r.subscribed = false
	return t.broker.Unsubscribe(ctx, ch)
}

func (t *Table) count(r *Route, loop int) {
	if r.loops.empty() {
		t.size.Add(1)
	}
	r.loops.add(loop)
}

func (t *Table) uncount(r *Route, loop int) {
	if r.loops.empty() {
		return
	}
	r.loops.remove(loop)
	if r.loops.empty() {
		t.size.Add(-1)
	}
}

// Size is the number of channels with subscribers.
func (t *Table) Size() int { return int(t.size.Load()) }

// Channels appends to dst the channels with subscribers of a bucket, from 0 to Buckets-1.
func (t *Table) Channels(dst []string, i int) []string {
	b := &t.buckets[i]
	b.mu.Lock()
	defer b.mu.Unlock()
	for ch, r := range b.m.All {
		if r.Loops() != 0 {
			dst = append(dst, ch)
		}
	}
	return dst
}
