package bench

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// maxMemo is the size of the largest message that is remembered, in bytes.
const maxMemo = 4 << 10

// memo remembers decoded publications by the bytes of their message. What a server
// sends to a thousand subscribers are the same bytes a thousand times: the client
// decodes them once, and so is less in the way of what it measures.
type memo struct {
	seed  maphash.Seed
	slots [4096]atomic.Pointer[remembered]
}

type remembered struct {
	message  []byte
	delivery *delivery
}

func newMemo() *memo { return &memo{seed: maphash.MakeSeed()} }

func (m *memo) slot(message []byte) *atomic.Pointer[remembered] {
	return &m.slots[maphash.Bytes(m.seed, message)%uint64(len(m.slots))]
}

// find returns what message delivers, or nil. It must not be changed.
func (m *memo) find(message []byte) *delivery {
	if m == nil || len(message) > maxMemo {
		return nil
	}
	if r := m.slot(message).Load(); r != nil && bytes.Equal(r.message, message) {
		return r.delivery
	}
	return nil
}

// keep remembers what message delivers, and returns it.
func (m *memo) keep(message []byte, d *delivery) *delivery {
	if m != nil && len(message) <= maxMemo {
		m.slot(message).Store(&remembered{message: bytes.Clone(message), delivery: d})
	}
	return d
}
