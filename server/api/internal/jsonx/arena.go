package jsonx

import "strings"

// arenaMax bounds what one value that is kept keeps alive.
const arenaMax = 16 << 10

// Arena makes copies of which many share one allocation, for what a request has
// very many of and is let go together. The zero value is ready for use.
type Arena struct {
	text        strings.Builder
	bytes       []byte
	texts, size int // of the latest allocation of each
}

// String returns a copy of b.
func (a *Arena) String(b []byte) string {
	if a.text.Cap()-a.text.Len() < len(b) {
		a.texts = grown(a.texts)
		a.text = strings.Builder{}
		a.text.Grow(max(a.texts, len(b)))
	}
	from := a.text.Len()
	a.text.Write(b)
	return a.text.String()[from:]
}

// Bytes returns a copy of b; nil if that is nil.
func (a *Arena) Bytes(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(a.bytes)-len(a.bytes) < len(b) {
		a.size = grown(a.size)
		a.bytes = make([]byte, 0, max(a.size, len(b)))
	}
	from := len(a.bytes)
	a.bytes = append(a.bytes, b...)
	return a.bytes[from:len(a.bytes):len(a.bytes)]
}

func grown(size int) int { return min(max(2*size, 64), arenaMax) }
