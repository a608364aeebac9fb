package session

import (
	"sync/atomic"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// credentials are what a refresh of a connection replaces. They are never modified.
type credentials struct {
	Info []byte
	// ExpireAt in seconds of Env.Now; 0 for never.
	ExpireAt int64
	// Token may be nil.
	Token *channel.Token
}

// credentialsHolder has no memory of its own for zero credentials. Any goroutine may call Get, one at a time Set and
// Prolong.
type credentialsHolder struct {
	packed atomic.Pointer[packedCredentials]
}

// packedCredentials have no capacity of Info, so they fit 32 bytes, a size of the allocator.
type packedCredentials struct {
	info     *byte
	length   int
	expireAt int64
	token    *channel.Token
}

func (h *credentialsHolder) Get() (c credentials) {
	if packed := h.packed.Load(); packed != nil {
		c = credentials{unsafe.Slice(packed.info, packed.length), packed.expireAt, packed.token}
	}
	return c
}

func (h *credentialsHolder) Set(c credentials) {
	if c.Info == nil && c.ExpireAt == 0 && c.Token == nil {
		h.packed.Store(nil)
		return
	}
	h.packed.Store(&packedCredentials{unsafe.SliceData(c.Info), len(c.Info), c.ExpireAt, c.Token})
}

// Prolong replaces the credentials, but for Info and Token that are nil in c.
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
