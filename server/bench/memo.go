package bench

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"

	"github.com/gyrohq/gyro/protocol"
)

// maxMemo is the size of the largest message that is remembered, in bytes.
const maxMemo = 8 << 10

// memo remembers decoded publications by the bytes of their message. What a server
// sends to a thousand subscribers are the same bytes a thousand times: the client
// decodes them once, and so is less in the way of what it measures.
type memo struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[remembered]
}

type remembered struct {
	message []byte
	push    *protocol.Push
}

func newMemo() *memo { return &memo{seed: maphash.MakeSeed()} }

func (m *memo) slot(message []byte) *atomic.Pointer[remembered] {
	return &m.slots[maphash.Bytes(m.seed, message)%uint64(len(m.slots))]
}

// find returns the push that message is, or nil. It must not be changed.
func (m *memo) find(message []byte) *protocol.Push {
	if m == nil || len(message) > maxMemo {
		return nil
	}
	if r := m.slot(message).Load(); r != nil && bytes.Equal(r.message, message) {
		return r.push
	}
	return nil
}

// keep remembers a decoded message; push must not alias it.
func (m *memo) keep(message []byte, push *protocol.Push) {
	if m != nil && len(message) <= maxMemo {
		m.slot(message).Store(&remembered{message: bytes.Clone(message), push: push})
	}
}
