package sendqueue

import (
	"bytes"
	"testing"
)

// A turn that needs several chunks allocates none of them again, and its frames stay
// as they are until the turn ends.
func TestArenaChunks(t *testing.T) {
	var a Arena
	frame := bytes.Repeat([]byte("frame"), 200)
	turn := func() {
		var frames [][]byte
		for i := range 300 {
			buf := append(a.Tail(len(frame)), frame...)
			buf[0] = byte(i)
			frames = append(frames, a.Commit(buf))
		}
		for i, f := range frames {
			if f[0] != byte(i) || !bytes.Equal(f[1:], frame[1:]) {
				t.Fatalf("frame %d has changed", i)
			}
		}
		a.Reset()
	}
	turn()
	chunks := len(a.free) + 1
	if chunks < 300*len(frame)/chunkSize {
		t.Fatalf("%d chunks are kept", chunks)
	}
	for range 3 {
		if turn(); len(a.free)+1 != chunks {
			t.Fatalf("%d chunks, had %d", len(a.free)+1, chunks)
		}
	}
	for range 2000 {
		a.Commit(append(a.Tail(len(frame)), frame...))
	}
	if a.Reset(); len(a.free) != maxSpareChunks {
		t.Errorf("%d chunks are kept after a large turn", len(a.free))
	}
	if large := make([]byte, chunkSize+1); &a.Commit(large)[0] != &large[0] {
		t.Error("a large frame was copied")
	}
}
