package client

import "sync"

// tally counts work. Unlike a sync.WaitGroup, it may rise from zero while a goroutine waits.
type tally struct {
	mu   sync.Mutex
	n    int
	zero sync.Cond
}

func (t *tally) Add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tally) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.zero.L != nil {
		t.zero.Broadcast()
	}
}

func (t *tally) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.zero.L = &t.mu
	for t.n > 0 {
		t.zero.Wait()
	}
}
