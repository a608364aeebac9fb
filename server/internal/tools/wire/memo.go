package wire

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/gyrohq/gyro/protocol"
)

// Memo keeps decoded messages by their bytes. A server sends the same bytes to a thousand subscribers: decoding them
// once takes less CPU from the server that is measured. It holds 4,096 messages; a new one replaces another. Several
// goroutines may use it. A nil Memo keeps nothing.
type Memo[T any] struct {
	largest int
	seed    maphash.Seed
	slots   [4096]atomic.Pointer[remembered[T]]
}

type remembered[T any] struct {
	message []byte
	decoded *T
}

// NewMemo returns an empty Memo for messages of up to largest bytes.
func NewMemo[T any](largest int) *Memo[T] {
	return &Memo[T]{largest: largest, seed: maphash.MakeSeed()}
}

func (m *Memo[T]) slot(message []byte) *atomic.Pointer[remembered[T]] {
	return &m.slots[maphash.Bytes(m.seed, message)%uint64(len(m.slots))]
}

// Find returns the decoded message, or nil. The caller must not change it.
func (m *Memo[T]) Find(message []byte) *T {
	if m == nil || len(message) > m.largest {
		return nil
	}
	if r := m.slot(message).Load(); r != nil && bytes.Equal(r.message, message) {
		return r.decoded
	}
	return nil
}

// Keep remembers and returns the decoded message. It copies message.
func (m *Memo[T]) Keep(message []byte, decoded *T) *T {
	if m != nil && len(message) <= m.largest {
		m.slot(message).Store(&remembered[T]{message: bytes.Clone(message), decoded: decoded})
	}
	return decoded
}

// FirstMessage returns the first protocol message of a WebSocket message, with its delimiter; all of a malformed one.
func FirstMessage(e protocol.Encoding, frame []byte) []byte {
	if e == protocol.JSON {
		if i := bytes.IndexByte(frame, '\n'); i >= 0 {
			return frame[:i+1]
		}
		return frame
	}
	size, n := binary.Uvarint(frame)
	if n <= 0 || size > uint64(len(frame)-n) {
		return frame
	}
	return frame[:n+int(size)]
}
