// Package poll tells a loop which of its sockets are ready (epoll on Linux).
package poll

// Watcher is told of a descriptor's readiness.
type Watcher interface {
	// Ready is called by Poll. Errors and hang-ups count as both readable and
	// writable: the next system call tells. It may be called without reason.
	Ready(readable, writable bool)
}
