// Package logtest has a log for tests.
package logtest

import (
	"bytes"
	"sync"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Buffer is a log that can be read while others write to it. The zero value is empty.
type Buffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	discard bool
	grown   chan struct{} // closed by the next Write; nil: no goroutine waits for it
}

// Write implements io.Writer.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.discard {
		return len(p), nil
	}
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return l.b.Write(p)
}

// String returns the log so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Take returns the log since the last call.
func (l *Buffer) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// Discard drops all writes from now on.
func (l *Buffer) Discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discard = true
}

// Await waits until done returns true for the log, and reports whether it does within wait.Limit. done cannot use the
// log.
func (l *Buffer) Await(done func(log string) bool) bool {
	limit := time.After(wait.Limit)
	for {
		l.mu.Lock()
		if done(l.b.String()) {
			l.mu.Unlock()
			return true
		}
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown := l.grown
		l.mu.Unlock()
		select {
		case <-grown:
		case <-limit:
			return false
		}
	}
}
