package session

import (
	"sync/atomic"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// credentials are the values that a refresh of a connection replaces. They are never modified.
type credentials struct {
	// Info of the client, as others see it.
	Info []byte
	// ExpireAt is when the connection expires, in Unix seconds; 0 for never.
	ExpireAt int64
	// Token of the client; nil if it is not known.
	Token *channel.Token
}

// credentialsHolder holds the credentials of a client. The zero value holds the zero credentials and has no memory of its own.
// Any goroutine may call Get, one at a time Set and Prolong.
type credentialsHolder struct {
	held atomic.Pointer[packedCredentials]
}

// packedCredentials are credentials without the capacity of Info. So it has 32 bytes, which is a size of the allocator.
type packedCredentials struct {
	info     *byte
	length   int
	expireAt int64
	token    *channel.Token
}

// Get returns the latest credentials.
func (h *credentialsHolder) Get() (c credentials) {
	if held := h.held.Load(); held != nil {
		c = credentials{unsafe.Slice(held.info, held.length), held.expireAt, held.token}
	}
	return c
}

// Set replaces the credentials.
func (h *credentialsHolder) Set(c credentials) {
	if c.Info == nil && c.ExpireAt == 0 && c.Token == nil {
		h.held.Store(nil)
		return
	}
	h.held.Store(&packedCredentials{unsafe.SliceData(c.Info), len(c.Info), c.ExpireAt, c.Token})
}

// Prolong replaces the credentials. Info and Token stay where they are nil in c.
func (h *credentialsHolder) Prolong(c credentials) {
	before := h.Get()
	if c.Info == nil {
		c.Info = before.Info
	}
	if c.Token == nil {
		c.Token = before.Token
	}
	h.Set(c)
}
