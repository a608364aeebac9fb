// Package wait waits in tests for a condition that nothing announces: the state of another process, of the kernel, or of
// several nodes. Where there is an event, tests wait for it; in a synctest bubble they call synctest.Wait.
package wait

import (
	"errors"
	"testing"
	"time"
)

// Limit bounds Until and Success. Nothing that works takes near as long, even on a busy machine.
const Limit = time.Minute

const longest = 20 * time.Millisecond

// Until calls done until it returns true. If it does not within Limit, the test fails with a message that quotes what.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	if !Within(Limit, done) {
		tb.Fatalf("not within %v: %s", Limit, what)
	}
}

// Success calls do until it returns nil. If it does not within Limit, the test fails with a message that quotes what and
// the last error.
func Success(tb testing.TB, what string, do func() error) {
	tb.Helper()
	err := errors.New("not called")
	if !Within(Limit, func() bool { err = do(); return err == nil }) {
		tb.Fatalf("not within %v: %s: %v", Limit, what, err)
	}
}

// Within calls done, at least once and with pauses of 1 to 20 ms, until it returns true or the limit has passed, and
// reports which.
func Within(limit time.Duration, done func() bool) bool {
	end := time.Now().Add(limit)
	for pause := time.Millisecond; !done(); pause = min(2*pause, longest) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Offer sends v to ch, or drops it if ch is full: a handler that waited for a test that reads only the first events
// would hold up the end of its caller.
func Offer[T any](ch chan<- T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// Receive returns the next element of ch, or its zero value if ch is closed. Without either within Limit, the test fails
// with a message that quotes what.
func Receive[T any](tb testing.TB, what string, ch <-chan T) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(Limit):
		tb.Fatalf("not within %v: %s", Limit, what)
		panic("unreachable")
	}
}
