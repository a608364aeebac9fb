package stand

import "sync"

// ledger is what the publisher of a channel knows about its numbers. Its methods may
// be called from any goroutine.
type ledger struct {
	mu sync.Mutex
	// begun is the number that was published last, acked the last that was acknowledged.
	begun, acked int64
	// doubtful numbers were answered with an error, and not published again: each may
	// come, once, at any time.
	doubtful map[int64]bool
}

func (l *ledger) begin(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = n
}

func (l *ledger) ack(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = n
}

func (l *ledger) doubt(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubtful == nil {
		l.doubtful = make(map[int64]bool)
	}
	l.doubtful[n] = true
}

// underWay is the last number that may be in the stream.
func (l *ledger) underWay() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

func (l *ledger) acknowledged() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

func (l *ledger) isDoubtful(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.doubtful[n]
}
