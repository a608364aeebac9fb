package engines

import (
	"context"
	"sync"
)

// flights lets identical reads share a round trip. At most one read of a key is under way; readers that ask meanwhile
// share the next one. No reader joins a read that was sent already: its answer may be older than the question, and a
// subscriber with it would miss publications from before its own subscription.
type flights[K comparable, Q flightQuery[K, Q], V any] struct {
	slots *slots
	read  func(ctx context.Context, q Q) (V, error)
	clone func(V) V

	mu sync.Mutex
	// next has the keys with a read under way, and the read that follows; nil if no reader waits for one.
	next map[K]*flight[Q, V]
	most int // keys that next has had at a time
}

// keepKeys is the largest map that is used again once it is empty: a map never shrinks, and would keep the memory of the
// moment when all clients came at once.
const keepKeys = 1024

type flightQuery[K comparable, Q any] interface {
	// key is equal for queries that have the same answer at any moment.
	key() K
	own() Q
}

type flight[Q, V any] struct {
	query  Q
	ctx    context.Context
	cancel context.CancelFunc

	// guarded by flights.mu
	waiting int
	sent    bool

	done chan struct{} // closed once v and err are set
	v    V
	err  error
}

func newFlights[K comparable, Q flightQuery[K, Q], V any](s *slots, clone func(V) V, read func(context.Context, Q) (V, error)) *flights[K, Q, V] {
	return &flights[K, Q, V]{slots: s, read: read, clone: clone, next: make(map[K]*flight[Q, V])}
}

// do returns an answer that was read after do was called.
func (f *flights[K, Q, V]) do(ctx context.Context, q Q) (V, error) {
	k := q.key()
	f.mu.Lock()
	fl, underWay := f.next[k]
	if !underWay {
		f.next[k] = nil
		f.most = max(f.most, len(f.next))
		f.mu.Unlock()
		return f.alone(ctx, k, q)
	}
	if fl == nil {
		fl = &flight[Q, V]{query: q.own(), done: make(chan struct{})}
		fl.ctx, fl.cancel = context.WithCancel(context.WithoutCancel(ctx))
		f.next[k] = fl
	}
	fl.waiting++
	f.mu.Unlock()
	return f.wait(ctx, k, fl)
}

func (f *flights[K, Q, V]) alone(ctx context.Context, k K, q Q) (v V, err error) {
	defer func() {
		if f.landed(k) {
			go f.share(k)
		}
	}()
	if err = f.slots.acquire(ctx); err != nil {
		return v, err
	}
	defer f.slots.release()
	return f.read(ctx, q)
}

// landed ends a read, and reports whether readers wait for another one.
func (f *flights[K, Q, V]) landed(k K) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next[k] != nil {
		return true
	}
	delete(f.next, k)
	if len(f.next) == 0 && f.most > keepKeys {
		f.next, f.most = make(map[K]*flight[Q, V]), 0
	}
	return false
}

// share makes reads for several readers, one after the other, while readers wait.
func (f *flights[K, Q, V]) share(k K) {
	for {
		// Readers may still join a read that waits for its slot.
		err := f.slots.acquire(context.Background())
		f.mu.Lock()
		fl := f.next[k]
		f.next[k] = nil
		if fl != nil {
			fl.sent = true
		}
		f.mu.Unlock()
		if fl != nil {
			if fl.err = err; err == nil {
				fl.v, fl.err = f.read(fl.ctx, fl.query)
			}
			fl.cancel()
			close(fl.done)
		}
		if err == nil {
			f.slots.release()
		}
		if !f.landed(k) {
			return
		}
	}
}

func (f *flights[K, Q, V]) wait(ctx context.Context, k K, fl *flight[Q, V]) (v V, err error) {
	select {
	case <-fl.done:
		if fl.err != nil {
			return v, fl.err
		}
		return f.clone(fl.v), nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel()
		if !fl.sent {
			f.next[k] = nil // so that no reader joins a canceled read
		}
	}
	return v, ctx.Err()
}
