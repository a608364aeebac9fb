package transport

import "time"

// Loop is a goroutine of the core that owns connections and can watch their sockets. So
// connections over plain sockets need no goroutine, no lock and no buffer each. Any goroutine
// may call Post. Other methods are called on the loop, where Post, Watch and After make their calls, too. These must not
// block. The node gives loops to the drivers of this module alone; package driver serves other transports.
type Loop interface {
	// Post runs f in order with other posts. It reports false if the loop has ended,
	// and f will not run.
	Post(f func()) bool
	// Watch calls w when fd, which is non-blocking, is readable or writable, as asked
	// for. If fd is watched already, w replaces its watcher.
	Watch(fd int, w Watcher, read, write bool) error
	// Change sets the events that fd is watched for.
	Change(fd int, read, write bool) error
	// Unwatch forgets fd, which must still be open.
	Unwatch(fd int)
	// Forget forgets fd, which the caller closes before it does anything else. It costs less than
	// Unwatch, because the system forgets a descriptor when it is closed.
	Forget(fd int)
	// After runs f once d has passed. Precision: 50 ms, never early.
	After(d time.Duration, f func()) Timer
	// Buffer returns memory to read into. The loop uses it again once the caller has
	// returned to the loop.
	Buffer() []byte
}

// Watcher is told of a socket's readiness.
type Watcher interface {
	// Ready is called again and again while the socket is ready. Errors and hang-ups
	// count as both. Ready may also be called when the socket is not ready.
	Ready(readable, writable bool)
	// Ended is called if the socket is still watched when the loop ends. The watcher has
	// to close the socket before it returns.
	Ended()
}

// Timer is a call that Loop.After has scheduled.
type Timer interface {
	// Stop cancels the call. It does nothing if the call was made.
	Stop()
}
