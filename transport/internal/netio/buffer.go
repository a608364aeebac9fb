// Package netio reads and writes byte streams, so that idle connections cost no memory and writes do not wait.
package netio

import (
	"math/bits"
	"sync"
)

const (
	minClass = 9  // 512 bytes
	maxClass = 16 // 64 KB
)

// Buffer is a byte slice from a pool. Its one owner gives it back with Free.
type Buffer struct {
	B     []byte
	class int // -1: not pooled
}

var pools [maxClass - minClass + 1]sync.Pool

// Get returns an empty buffer for at least n bytes. Buffers above 64 KB are not pooled.
func Get(n int) *Buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		return &Buffer{B: make([]byte, 0, n), class: -1}
	}
	if b, ok := pools[class-minClass].Get().(*Buffer); ok {
		return b
	}
	return &Buffer{B: make([]byte, 0, 1<<class), class: class}
}

// Free gives b back: b and its bytes must not be used any more. Nil is allowed.
func (b *Buffer) Free() {
	if b == nil || b.class < 0 {
		return
	}
	b.B = b.B[:0]
	pools[b.class-minClass].Put(b)
}

// Grow returns a buffer with b's content and room for n more bytes. If it is another one, b was freed. A nil b counts as
// empty. Another buffer has half of the content as further room, so that content in small parts is copied a few times in
// all.
func (b *Buffer) Grow(n int) *Buffer {
	if b == nil {
		return Get(n)
	}
	if cap(b.B)-len(b.B) >= n {
		return b
	}
	g := Get(len(b.B) + max(n, len(b.B)/2))
	g.B = append(g.B, b.B...)
	b.Free()
	return g
}

// gather returns the bytes for one system call, from frames[i] on: that frame itself, or a copy of it and of small ones
// that follow, in b.
func gather(frames [][]byte, i int) (p []byte, next int, b *Buffer) {
	size := len(frames[i])
	next = i + 1
	for next < len(frames) && size+len(frames[next]) <= gatherSize {
		size += len(frames[next])
		next++
	}
	if next == i+1 {
		return frames[i], next, nil
	}
	b = Get(size)
	for _, f := range frames[i:next] {
		b.B = append(b.B, f...)
	}
	return b.B, next, b
}
