// Package wire is the part of the runtime of generated codecs that does not depend on the
// encoding. tools/codecgen makes the codecs from schemas; they read and write by the packages
// wire/jsonwire and wire/pbwire, whose readers use this package to count and make values.
//
// The three packages are public because other modules have schemas of their own. They are
// for generated code: programs use the methods of the messages.
package wire

import (
	"bytes"
	"slices"
	"unsafe"
)

// Maker makes the values that a reader returns. With the zero value each has memory of its own, and there is no bound.
// One goroutine at a time may use it.
type Maker struct {
	kept     [annotated]int32
	elements int
	most     int
	shared   *shared
}

// annotated is how many fields with @most a schema may have.
const annotated = 2

// Keep counts an element of a field with @most, over all messages. False: it is not among the first most, and the caller
// skips it.
func (m *Maker) Keep(field int, most int32) bool {
	if m.kept[field] == most {
		return false
	}
	m.kept[field]++
	return true
}

// Bound bounds the elements of lists and entries of maps in all messages together. Default: 0, no bound.
func (m *Maker) Bound(most int) { m.most = most }

// Most is the bound.
func (m *Maker) Most() int { return m.most }

// Count counts an element or an entry. False: it is beyond the bound.
func (m *Maker) Count() bool {
	m.elements++
	return m.elements <= m.most || m.most == 0
}

// shared is memory for several values. A value that is kept keeps its neighbours, so it is for values that are many, and
// dropped together.
type shared struct {
	text []byte // the latest chunk
	slab any    // *slab[T] of the latest type
	room int    // number of elements that fit the latest list and that New has not made
}

// maxChunk is the most bytes of a chunk of text, but for one text that is longer.
const maxChunk = 16 << 10

// Share makes Text, Copy and New use shared memory from now on.
func (m *Maker) Share() {
	if m.shared == nil {
		m.shared = new(shared)
	}
}

// Text returns a copy of b.
func (m *Maker) Text(b []byte) string {
	if m.shared == nil {
		return string(b)
	}
	c := m.shared.copyOf(b)
	return unsafe.String(unsafe.SliceData(c), len(c)) // c is not used elsewhere
}

// Copy returns a copy of b; nil if that is nil. Its capacity is its length.
func (m *Maker) Copy(b []byte) []byte {
	if m.shared == nil || b == nil {
		return bytes.Clone(b)
	}
	return m.shared.copyOf(b)
}

func (s *shared) copyOf(b []byte) []byte {
	from := len(s.text)
	if cap(s.text)-from < len(b) {
		size := min(max(2*cap(s.text), 64), maxChunk)
		s.text, from = make([]byte, 0, max(size, len(b))), 0
	}
	s.text = append(s.text, b...)
	return s.text[from:len(s.text):len(s.text)]
}

// Extend appends an empty element to a list. If it must grow, it grows by the number of elements to expect, at most to
// nine times its length: read is how many bytes of input the elements so far took, left how many follow.
func Extend[T any](m *Maker, list []T, read, left int) []T {
	if len(list) == cap(list) {
		list = grow(m, list, read, left)
	}
	return list[:len(list)+1]
}

func grow[T any](m *Maker, list []T, read, left int) []T {
	n, room := len(list), 8
	if n >= room {
		room = min(max(left/max(read/n, 1), n/4)+8, 8*n)
	}
	list = slices.Grow(list, room)
	if m.shared != nil {
		m.shared.room = cap(list) - n
	}
	return list
}

// New returns an empty T. With shared memory it makes as many at once as the latest list has room for.
func New[T any](m *Maker) *T {
	if m.shared == nil {
		return new(T)
	}
	s, ok := m.shared.slab.(*slab[T])
	if !ok {
		s = new(slab[T])
		m.shared.slab = s
	}
	if len(s.rest) == 0 {
		s.rest = make([]T, max(m.shared.room, 1))
		m.shared.room = 0
	}
	v := &s.rest[0]
	s.rest = s.rest[1:]
	return v
}

type slab[T any] struct{ rest []T }
