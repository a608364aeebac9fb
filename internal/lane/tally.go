package lane

import "sync"

// Tally counts what is going on; unlike a sync.WaitGroup it may rise from zero
// while somebody waits.
type Tally struct {
	mu   sync.Mutex
	n    int
	zero sync.Cond
}

// Add counts one more.
func (t *Tally) Add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

// Done counts one less.
func (t *Tally) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.zero.L != nil {
		t.zero.Broadcast()
	}
}

// Wait waits until nothing is going on.
func (t *Tally) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.zero.L = &t.mu
	for t.n > 0 {
		t.zero.Wait()
	}
}
