package transport

import "time"

// Loop is a goroutine of the core that owns connections and can watch their
// sockets. A transport whose connections are plain sockets lives on it: no
// goroutine, no lock and no buffer per connection. Only Post may be called from
// elsewhere; the rest, and everything that Post, Watch and After call, happens on
// the loop, which must not be blocked.
type Loop interface {
	// Post runs f in order with other posts. It reports false if the loop has ended,
	// and f will not run.
	Post(f func()) bool
	// Watch calls w when fd, which is non-blocking, is readable or writable as asked
	// for. If fd is watched already, w takes the place of its watcher.
	Watch(fd int, w Watcher, read, write bool) error
	// Change sets what fd is watched for.
	Change(fd int, read, write bool) error
	// Unwatch forgets fd, which must still be open.
	Unwatch(fd int)
	// After runs f once d has passed. Precision: 50 ms, never early.
	After(d time.Duration, f func()) Timer
	// Buffer is space to read into. Its contents last until the caller returns to
	// the loop.
	Buffer() []byte
}

// Watcher is told of a socket's readiness.
type Watcher interface {
	// Ready is called for as long as the socket is ready. Errors and hang-ups count as
	// both. It may be called without reason.
	Ready(readable, writable bool)
	// Ended is called when the loop ends while the socket is still watched: it is to
	// be closed, now.
	Ended()
}

// Timer is a call that is due.
type Timer interface {
	// Stop cancels the call. It does nothing if the call was made.
	Stop()
}
