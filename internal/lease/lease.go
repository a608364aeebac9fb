// Package lease holds what a refresh of a connection replaces.
package lease

import (
	"sync/atomic"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// Lease is never modified.
type Lease struct {
	// Info of the client, as others see it.
	Info []byte
	// ExpireAt is when the connection expires, in Unix seconds; 0 for never.
	ExpireAt int64
	// Token of the client; nil if it is not known.
	Token *channel.Token
}

// Holder holds the lease of a client. The zero value holds the zero Lease, which costs nothing.
// Any goroutine may call Get, one at a time Set and Prolong.
type Holder struct{ held atomic.Pointer[held] }

// held is a Lease without the capacity of Info: so it has 32 bytes, which is a size of the allocator.
type held struct {
	info     *byte
	length   int
	expireAt int64
	token    *channel.Token
}

// Get returns the latest lease.
func (h *Holder) Get() (l Lease) {
	if held := h.held.Load(); held != nil {
		l = Lease{unsafe.Slice(held.info, held.length), held.expireAt, held.token}
	}
	return l
}

// Set replaces the lease.
func (h *Holder) Set(l Lease) {
	if l.Info == nil && l.ExpireAt == 0 && l.Token == nil {
		h.held.Store(nil)
		return
	}
	h.held.Store(&held{unsafe.SliceData(l.Info), len(l.Info), l.ExpireAt, l.Token})
}

// Prolong replaces the lease, but for its info and token where those of l are nil.
func (h *Holder) Prolong(l Lease) {
	before := h.Get()
	if l.Info == nil {
		l.Info = before.Info
	}
	if l.Token == nil {
		l.Token = before.Token
	}
	h.Set(l)
}
