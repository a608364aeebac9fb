// Package wait waits in tests for a condition that nothing announces: the state of another process, of
// the kernel, or of several nodes. Where there is an event, tests wait for the event; in a synctest
// bubble they call synctest.Wait.
package wait

import (
	"errors"
	"testing"
	"time"
)

// Limit bounds Until and Success. Nothing that works takes anywhere near as long, even on a busy machine.
const Limit = time.Minute

// longest is the longest pause between two calls.
const longest = 20 * time.Millisecond

// Until calls done until it returns true. If it does not within Limit, the test ends with a message that quotes the
// argument what.
func Until(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	if !Within(Limit, done) {
		tb.Fatalf("not within %v: %s", Limit, what)
	}
}

// Success calls do until it returns nil. If it does not within Limit, the test ends with a message that quotes the
// argument what and the last error.
func Success(tb testing.TB, what string, do func() error) {
	tb.Helper()
	err := errors.New("not called")
	if !Within(Limit, func() bool { err = do(); return err == nil }) {
		tb.Fatalf("not within %v: %s: %v", Limit, what, err)
	}
}

// Within calls done until it returns true, which Within reports, or until the limit has passed. It calls done
// at least once, and again after pauses of 1 to 20 ms.
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

// Offer sends v to ch, or drops it if ch is full. Handlers of events use it for tests that read only the first ones: a
// handler that waited for the test would hold up the end of its caller.
func Offer[T any](ch chan<- T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// Receive returns the next element of ch, or its zero value if ch is closed. If neither happens within Limit, the test
// ends with a message that quotes the argument what.
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
