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
	// leaver unsubscribes later from a broker that is not in the process; nil if it is.
	leaver  *leaver
	lastID  atomic.Int64
	size    atomic.Int64 // routes with subscribers
	buckets [Buckets]bucket
	// marked is the number of routes with a mark.
	marked atomic.Int64
}

// Buckets is the number of parts that a table has. Each holds about as many channels
// as any other, in a division that is the table's own.
const Buckets = 256

// bucket is read without its lock, which is for those who change it.
type bucket struct {
	mu sync.Mutex
	m  readmap.Map[*Route]
}

// Route is one channel that has, or is about to have, subscribers, or had some
// until a moment ago.
type Route struct {
	id int64
	// loops with subscribers.
	loops counts
	// users is the number of those who hold the route, guarded by its bucket.
	users int32

	// What follows, and what counts in loops, is guarded by mu, which serialises the
	// broker's subscribe and unsubscribe of this channel.
	//
	// subscribed tells that the broker is; if not, it may be so nevertheless after a
	// call that failed. leaving tells that the route waits at the leaver, which holds
	// it meanwhile; returned that there has been a subscriber since then.
	subscribed, leaving, returned bool
	// mark is that of Table.Mark, guarded by the bucket.
	mark uint8
	mu   sync.Mutex
}

// ID replaces the channel's name for clients that negotiated compaction.
func (r *Route) ID() int64 { return r.id }

// Loops that may have subscribers now.
func (r *Route) Loops() Loops { return Loops(r.loops.taken.Load()) }

// New returns an empty table for a broker. Unless the broker is local, channels
// are left later: see leaver.
func New(b broker.Broker) *Table {
	t := &Table{broker: b}
	if !b.Describe().Local {
		t.leaver = newLeaver(t)
	}
	return t
}

// Close ends what the table does in the background, and waits for it. What is still
// to be unsubscribed stays subscribed: the broker is about to be closed.
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

// acquire returns the route of a channel, which stays until it is released.
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
		if r.mark != 0 {
			t.marked.Add(-1)
		}
	}
}

// Add routes a channel to a loop and returns the channel's ID. When it returns,
// what the broker accepts from now on reaches the loop. Calls for different channels
// do not wait for each other.
func (t *Table) Add(ctx context.Context, ch string, loop int) (id int64, err error) {
	r := t.acquire(ch)
	r.mu.Lock()
	defer r.mu.Unlock()
	t.count(r, loop)
	if !r.subscribed {
		if err := t.broker.Subscribe(ctx, ch); err != nil {
			t.uncount(r, loop)
			// A failure, such as a context that ended, does not prove that nothing came
			// of it.
			_ = t.leave(context.WithoutCancel(ctx), ch, r)
			return 0, err
		}
		r.subscribed = true
	}
	r.returned = r.leaving
	return r.id, nil
}

// Remove undoes Add. The error is that of a broker that is left at once.
func (t *Table) Remove(ctx context.Context, ch string, loop int) error {
	r := t.Find(ch)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.uncount(r, loop)
	return t.leave(ctx, ch, r)
}

// leave gives up one use of a route whose lock is held, and leaves the channel, now
// or later, if that was its last subscriber.
func (t *Table) leave(ctx context.Context, ch string, r *Route) error {
	switch {
	case !r.loops.empty() || r.leaving:
		t.release(ch, r)
		return nil
	case t.leaver != nil:
		r.leaving = true
		t.leaver.add(departure{ch: ch, route: r}) // which has the use from now on
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
	if r.loops.remove(loop); r.loops.empty() {
		t.size.Add(-1)
	}
}

// Size is the number of channels with subscribers.
func (t *Table) Size() int { return int(t.size.Load()) }

// Channels appends to dst the channels of a bucket, from 0 to Buckets-1, that have
// subscribers. All buckets together are all channels.
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
