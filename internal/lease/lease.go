// Package lease holds what a refresh of a connection replaces.
package lease

import "sync/atomic"

// Lease is never modified.
type Lease struct {
	// Info of the client, as others see it.
	Info []byte
	// ExpireAt is when the connection expires, in Unix seconds; 0 for never.
	ExpireAt int64
}

// Holder holds the lease of a client. The zero value holds the zero Lease, which costs nothing.
// Any goroutine may call Get, one at a time Set.
type Holder struct{ held atomic.Pointer[Lease] }

// Get returns the latest lease.
func (h *Holder) Get() (l Lease) {
	if held := h.held.Load(); held != nil {
		l = *held
	}
	return l
}

// Set replaces the lease.
func (h *Holder) Set(l Lease) {
	if l.Info == nil && l.ExpireAt == 0 {
		h.held.Store(nil)
		return
	}
	h.held.Store(new(l))
}
