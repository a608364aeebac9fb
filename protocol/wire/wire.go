// Package wire is what generated codecs share: tools/codecgen makes them from schemas,
// and they read and write by means of wire/jsonwire and wire/pbwire. This package
// counts and makes what the readers of both return.
//
// The three packages are public because modules beside the library have schemas of their
// own. They are for generated code: programs use the methods of the messages.
package wire

import (
	"bytes"
	"slices"
	"unsafe"
)

// Maker makes what one reader returns. The zero value gives every value memory of its
// own, and has no bound. It is for one goroutine.
type Maker struct {
	kept     [annotated]int32
	elements int
	most     int
	shared   *shared
}

// annotated is how many fields with @most a schema has at most.
const annotated = 2

// Keep counts an element of a field with @most, whichever message it is in, and reports
// whether it is one of the first most of all that are read. The others have to be
// skipped.
func (m *Maker) Keep(field int, most int32) bool {
	if m.kept[field] == most {
		return false
	}
	m.kept[field]++
	return true
}

// Bound sets how many elements of lists and entries of maps all messages that are read
// may have together. 0, the default, is no bound.
func (m *Maker) Bound(most int) { m.most = most }

// Most is the bound.
func (m *Maker) Most() int { return m.most }

// Count counts an element or an entry and reports whether it is within the bound.
func (m *Maker) Count() bool {
	m.elements++
	return m.elements <= m.most || m.most == 0
}

// shared is memory that several values lie in. It is for what a message has very many
// of and is let go together: a value that is kept keeps its neighbours in memory.
type shared struct {
	text []byte // the latest chunk
	slab any    // *slab[T] of the latest type
	room int    // of the latest list for elements that New has not made
}

// maxChunk bounds the text that one text that is kept keeps in memory; bytes.
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
	return unsafe.String(unsafe.SliceData(c), len(c)) // nobody else has it
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

// Extend appends an empty element to a list of one that begins empty, and makes room for
// further ones where there is none. It takes them to be as long as those before: read is
// how many bytes these have, left how many follow. It makes room for no more than eight
// times as many as there are.
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

// New returns an empty T. Where memory is shared, as many of them are made together as the
// latest list has room for; any more are made one by one.
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
