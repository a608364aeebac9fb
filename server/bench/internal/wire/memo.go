package wire

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// maxMemo is the size of the largest message that is remembered, in bytes.
const maxMemo = 4 << 10

// Memo remembers what messages were decoded to, by their bytes. What a server sends
// to a thousand subscribers are the same bytes a thousand times: the client decodes
// them once, and so is less in the way of what it measures. It holds 4,096 messages
// of up to 4 KiB; a new one takes the place of another. Several goroutines may use
// it; a nil Memo remembers nothing.
type Memo[T any] struct {
	seed  maphash.Seed
	slots [4096]atomic.Pointer[remembered[T]]
}

type remembered[T any] struct {
	message []byte
	decoded *T
}

// NewMemo returns a Memo that remembers nothing yet.
func NewMemo[T any]() *Memo[T] { return &Memo[T]{seed: maphash.MakeSeed()} }

func (m *Memo[T]) slot(message []byte) *atomic.Pointer[remembered[T]] {
	return &m.slots[maphash.Bytes(m.seed, message)%uint64(len(m.slots))]
}

// Find returns what message was decoded to, or nil. It must not be changed.
func (m *Memo[T]) Find(message []byte) *T {
	if m == nil || len(message) > maxMemo {
		return nil
	}
	if r := m.slot(message).Load(); r != nil && bytes.Equal(r.message, message) {
		return r.decoded
	}
	return nil
}

// Keep remembers what message was decoded to, and returns it. It copies message.
func (m *Memo[T]) Keep(message []byte, decoded *T) *T {
	if m != nil && len(message) <= maxMemo {
		m.slot(message).Store(&remembered[T]{message: bytes.Clone(message), decoded: decoded})
	}
	return decoded
}
