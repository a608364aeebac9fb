package transport

import "time"

// Loop is a goroutine of the core that owns connections and can watch their sockets, which then need no goroutine, lock
// and buffer each. Any goroutine may call Post. Other methods are called on the loop, where Post, Watch and After make
// their calls, which must not block. Only the drivers of this module get loops; package driver serves other transports.
type Loop interface {
	// Post runs f in order with other posts. False: the loop has ended, and f will not run.
	Post(f func()) bool
	// Watch calls w when fd, which is non-blocking, is readable or writable, as asked for. w replaces an earlier
	// watcher.
	Watch(fd int, w Watcher, read, write bool) error
	// Change sets the events that fd is watched for.
	Change(fd int, read, write bool) error
	// Unwatch forgets fd, which must still be open.
	Unwatch(fd int)
	// Forget forgets fd, which the caller closes before it does anything else. It costs less than Unwatch, because the
	// system forgets a closed descriptor.
	Forget(fd int)
	// After runs f once d has passed. Precision: 50 ms, never early.
	After(d time.Duration, f func()) Timer
	// Buffer returns memory to read into, until the caller returns to the loop.
	Buffer() []byte
}

// Watcher is told of a socket's readiness.
type Watcher interface {
	// Ready is called again and again while the socket is ready, and perhaps when it is not. Errors and hang-ups count
	// as both.
	Ready(readable, writable bool)
	// Ended is called if the loop ends before the socket is unwatched. The watcher closes the socket before it returns.
	Ended()
}

// Timer is a call of Loop.After.
type Timer interface {
	// Stop cancels the call, unless it was made.
	Stop()
}
