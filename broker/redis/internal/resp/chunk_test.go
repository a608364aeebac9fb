package resp

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// retained is a value that somebody keeps for a while.
type retained struct {
	chunk *Chunk
	data  []byte
	want  string
}

// What is retained stays as it is until it is freed, in whatever order others free theirs,
// by several goroutines.
func TestHold(t *testing.T) {
	var all []byte
	for i := range 2000 {
		data := fmt.Sprint("value ", i, " ", i*i)
		all = append(all, fmt.Sprintf("$%d\r\n%s\r\n", len(data), data)...)
	}
	values := make(chan retained, 500)
	var owners sync.WaitGroup
	for range 4 {
		owners.Go(func() {
			var mine []retained
			free := func() {
				i := rand.IntN(len(mine))
				h := mine[i]
				if string(h.data) != h.want {
					t.Errorf("%q has become %q", h.want, h.data)
				}
				h.chunk.Free(1)
				mine[i] = mine[len(mine)-1]
				mine = mine[:len(mine)-1]
			}
			for h := range values {
				if mine = append(mine, h); len(mine) > 100 {
					free()
				}
			}
			for len(mine) > 0 {
				free()
			}
		})
	}
	r := NewReader(&stream{data: all}, ChunkSize, testMax)
	for i := range 100_000 {
		var f Frame
		if err := r.Next(&f); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("value ", i%2000, " ", i%2000*(i%2000))
		if string(f.Text) != want {
			t.Fatalf("got %q, want %q", f.Text, want)
		}
		if i%7 != 0 { // the others are forgotten at once
			values <- retained{r.Retain(), f.Text, want}
		}
	}
	close(values)
	owners.Wait()
}

// A chunk is free when the reader has left it and all parts are, not before; then its
// user finds what it has attached.
func TestChunkLife(t *testing.T) {
	c := newChunk(ChunkSize)
	c.Attached, c.Used = "mine", 3
	c.given = 3
	c.Free(1)
	c.leave()
	c.Free(1)
	if n := c.left.Load(); n != 1 {
		t.Fatalf("%d parts left, want 1", n)
	}
	c.Free(1)
	if n := c.left.Load(); n != 0 {
		t.Fatalf("%d parts left, want 0", n)
	}
	for range 100 { // the pool forgets some on purpose when tests look for races
		if again := newChunk(ChunkSize); again.Attached == "mine" {
			if again.Used != 0 || again.left.Load() != reading || again.given != 0 {
				t.Fatalf("used again as %+v", again)
			}
			return
		}
		c.leave()
	}
}
