package gate

import (
	"context"
	"hash/maphash"
)

// flights let identical reads share a round trip. Of one key at most one read is
// under way; those who ask meanwhile share the next one, which starts when it is
// back. Nobody joins a read that has been sent already: its answer may be older than
// the question, and a subscriber that read it would miss what was published between
// that answer and its own subscription.
type flights[K key[K], V any] struct {
	slots *slots
	read  func(ctx context.Context, k K) (V, error)
	// clone makes an answer that its reader may change.
	clone func(V) V

	seed    maphash.Seed
	stripes [numStripes]stripe[K, V]
}

// flight is a read that is not sent yet, for several readers.
type flight[V any] struct {
	ctx    context.Context
	cancel context.CancelFunc

	// guarded by the stripe
	waiting int
	sent    bool // it is not its seat's next any more

	done chan struct{} // closed behind the answer
	v    V
	err  error
}

func newFlights[K key[K], V any](s *slots, clone func(V) V, read func(context.Context, K) (V, error)) *flights[K, V] {
	return &flights[K, V]{slots: s, read: read, clone: clone, seed: maphash.MakeSeed()}
}

// do returns an answer that was read after do was called.
func (f *flights[K, V]) do(ctx context.Context, k K) (V, error) {
	hash := k.hash(f.seed)
	st := &f.stripes[hash%numStripes]
	st.mu.Lock()
	s := st.find(hash, &k)
	if s == nil {
		s = st.add(hash, &k)
		st.mu.Unlock()
		return f.alone(ctx, st, s)
	}
	fl := s.next
	if fl == nil {
		fl = &flight[V]{done: make(chan struct{})}
		fl.ctx, fl.cancel = context.WithCancel(context.WithoutCancel(ctx))
		s.next = fl
	}
	fl.waiting++
	st.mu.Unlock()
	return f.wait(ctx, st, s, fl)
}

// alone reads for one reader. The others wait until it is back.
func (f *flights[K, V]) alone(ctx context.Context, st *stripe[K, V], s *seat[K, V]) (v V, err error) {
	defer func() {
		if f.landed(st, s) {
			go f.share(st, s)
		}
	}()
	if err = f.slots.acquire(ctx); err != nil {
		return v, err
	}
	defer f.slots.release()
	return f.read(ctx, s.key)
}

// landed ends a read. It reports whether readers wait for another one; if none do, it
// removes the key's seat.
func (f *flights[K, V]) landed(st *stripe[K, V], s *seat[K, V]) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s.next != nil {
		s.key = s.key.own() // who made it goes away
		return true
	}
	st.remove(s)
	return false
}

// share reads for several readers at once, for as long as there are any.
func (f *flights[K, V]) share(st *stripe[K, V], s *seat[K, V]) {
	for {
		// As long as it waits for a slot, a read is not sent.
		err := f.slots.acquire(context.Background())
		st.mu.Lock()
		fl := s.next
		s.next = nil
		if fl != nil {
			fl.sent = true
		}
		st.mu.Unlock()
		if fl != nil {
			if fl.err = err; err == nil {
				fl.v, fl.err = f.read(fl.ctx, s.key)
			}
			fl.cancel()
			close(fl.done)
		}
		if err == nil {
			f.slots.release()
		}
		if !f.landed(st, s) {
			return
		}
	}
}

// wait waits for the answer of a flight.
func (f *flights[K, V]) wait(ctx context.Context, st *stripe[K, V], s *seat[K, V], fl *flight[V]) (v V, err error) {
	select {
	case <-fl.done:
		if fl.err != nil {
			return v, fl.err
		}
		return f.clone(fl.v), nil
	case <-ctx.Done():
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		fl.cancel()
		if !fl.sent { // and nobody may join it now
			s.next = nil
		}
	}
	return v, ctx.Err()
}
