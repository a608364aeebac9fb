package account

import (
	"sync"
	"sync/atomic"
)

// Ledger has the state of the numbers of a publisher. Any goroutine may use it.
type Ledger struct {
	// Begun is the last published number, Acked the last acknowledged one.
	Begun, Acked atomic.Int64

	mu sync.Mutex
	// doubtful numbers were answered with an error and not published again. Each may come once, at any time.
	doubtful map[int64]bool
}

func (l *Ledger) doubt(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubtful == nil {
		l.doubtful = make(map[int64]bool)
	}
	l.doubtful[n] = true
}

func (l *Ledger) isDoubtful(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubtful[n]
}
