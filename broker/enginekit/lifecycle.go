package enginekit

import (
	"context"
	"sync"
	"sync/atomic"
)

// State of a broker.
type State int32

// States of a broker, in their order.
const (
	StateNew State = iota
	StateStarting
	StateRunning
	StateClosed
)

// Lifecycle holds the state of a broker. With its errors set, the zero value is a new broker. Any goroutine may call the
// methods.
type Lifecycle struct {
	// ErrRunTwice is the error of a second Run, and of Run after Close.
	ErrRunTwice error
	// ErrNotRunning is the error of earlier calls.
	ErrNotRunning error
	// ErrClosed is the error of later calls.
	ErrClosed error

	mu    sync.Mutex // serialises changes
	state atomic.Int32
}

// IsRunning takes no lock.
func (l *Lifecycle) IsRunning() bool { return State(l.state.Load()) == StateRunning }

// Check returns an error unless the broker runs and ctx has not ended. While the broker runs, it takes no lock.
func (l *Lifecycle) Check(ctx context.Context) error {
	if l.IsRunning() {
		return ctx.Err()
	}
	return l.checkLocked(ctx)
}

func (l *Lifecycle) checkLocked(ctx context.Context) error {
	l.mu.Lock()
	state := State(l.state.Load())
	l.mu.Unlock()
	switch state {
	case StateRunning:
		return ctx.Err()
	case StateClosed:
		return l.ErrClosed
	default:
		return l.ErrNotRunning
	}
}

// Prepare calls do while the broker is new, and otherwise returns ErrRunTwice. The broker does not start before do has
// returned.
func (l *Lifecycle) Prepare(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if State(l.state.Load()) != StateNew {
		return l.ErrRunTwice
	}
	return do()
}

// Start is the beginning of Run. Unless the broker is new, it returns ErrRunTwice.
func (l *Lifecycle) Start() error {
	return l.Prepare(func() error {
		l.state.Store(int32(StateStarting))
		return nil
	})
}

// Running is the end of a Run that succeeds: the broker runs once begin, which may be nil, has returned. If the broker
// was closed meanwhile, Running returns ErrClosed and does not call begin. Close waits for begin.
func (l *Lifecycle) Running(begin func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if State(l.state.Load()) == StateClosed {
		return l.ErrClosed
	}
	if begin != nil {
		begin()
	}
	l.state.Store(int32(StateRunning))
	return nil
}

// Close returns the state before. It is also for a Run that fails.
func (l *Lifecycle) Close() (before State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State(l.state.Swap(int32(StateClosed)))
}

// UnlessClosed calls do, or returns false if the broker is closed. Close waits for do, which may start a goroutine that
// Close, or its caller, waits for.
func (l *Lifecycle) UnlessClosed(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if State(l.state.Load()) == StateClosed {
		return false
	}
	do()
	return true
}

// Await waits until do returns. If ctx ends before, Await returns its error, and do goes on.
func Await(ctx context.Context, do func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
