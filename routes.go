package gyro

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker"
)

// routes know for each channel which loops have subscribers, and keep the broker
// subscribed to just these channels.
type routes struct {
	broker  broker.Broker
	lastID  atomic.Int64
	seed    maphash.Seed
	buckets [256]bucket
}

type bucket struct {
	mu sync.RWMutex
	m  map[string]*route
}

// route is one channel that has, or is about to have, subscribers.
type route struct {
	// id replaces the channel's name for clients that negotiated compaction.
	id int64
	// loops with subscribers.
	loops loopSet
	// users is the number of those who hold the route, guarded by its bucket.
	users int32

	// subscribed, and what counts in loops, is guarded by mu, which serialises the
	// broker's subscribe and unsubscribe of this channel.
	subscribed bool
	mu         sync.Mutex
}

func newRoutes(b broker.Broker) *routes {
	r := &routes{broker: b, seed: maphash.MakeSeed()}
	for i := range r.buckets {
		r.buckets[i].m = make(map[string]*route)
	}
	return r
}

func (t *routes) bucket(ch string) *bucket {
	return &t.buckets[maphash.String(t.seed, ch)%uint64(len(t.buckets))]
}

// find returns the route of a channel, or nil.
func (t *routes) find(ch string) *route {
	b := t.bucket(ch)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.m[ch]
}

// acquire returns the route of a channel, which stays until it is released.
func (t *routes) acquire(ch string) *route {
	b := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.m[ch]
	if r == nil {
		r = &route{id: t.lastID.Add(1)}
		b.m[ch] = r
	}
	r.users++
	return r
}

func (t *routes) release(ch string, r *route) {
	b := t.bucket(ch)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(b.m, ch)
	}
}

// add routes a channel to a loop and returns the channel's ID. When it returns,
// what the broker accepts from now on reaches the loop.
func (t *routes) add(ctx context.Context, ch string, shard int) (id int64, err error) {
	r := t.acquire(ch)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loops.add(shard)
	if !r.subscribed {
		if err := t.broker.Subscribe(ctx, ch); err != nil {
			// A failure, such as a context that ended, does not prove that nothing came
			// of it.
			_ = t.broker.Unsubscribe(context.WithoutCancel(ctx), ch)
			r.loops.remove(shard)
			t.release(ch, r)
			return 0, err
		}
		r.subscribed = true
	}
	return r.id, nil
}

// remove undoes add.
func (t *routes) remove(ctx context.Context, ch string, shard int) error {
	r := t.find(ch)
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer t.release(ch, r)
	if r.loops.remove(shard); !r.loops.empty() || !r.subscribed {
		return nil
	}
	r.subscribed = false
	return t.broker.Unsubscribe(ctx, ch)
}

// size is the number of channels.
func (t *routes) size() int {
	n := 0
	for i := range t.buckets {
		b := &t.buckets[i]
		b.mu.RLock()
		n += len(b.m)
		b.mu.RUnlock()
	}
	return n
}
