package books

import (
	"math/rand/v2"
	"testing"
)

// TestBook compares the book with the plain definition, on random numbers.
func TestBook(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b, want Book
		gaps, next := Gaps{}, uint64(0)
		came, highest := map[uint64]bool{}, uint64(0)
		total := uint64(20)
		for range r.IntN(30) {
			n := min(total-1, uint64(r.IntN(int(highest)+4)))
			b.Enter(gaps, 7, &next, n)
			switch {
			case came[n]:
				want.Twice++
			case n < highest:
				want.Late++
				want.Received++
			default:
				want.Received++
			}
			came[n] = true
			highest = max(highest, n+1)
		}
		b.Settle(gaps, 7, &next, total)
		b.Settle(gaps, 7, &next, total)
		for n := range total {
			if !came[n] {
				want.Lost++
			}
		}
		if b != want || b.OK() != (want.Lost+want.Twice+want.Late == 0) {
			t.Fatalf("%+v, not %+v", b, want)
		}
		// What is settled as lost may still come.
		for n := range total {
			if !came[n] {
				b.Enter(gaps, 7, &next, n)
			}
		}
		if b.Lost != 0 || b.Received != total || len(gaps) != 0 {
			t.Fatalf("%+v after everything has come; gaps: %v", b, gaps)
		}
	}
}

// TestInOrderAllocs: a message in its order costs no memory.
func TestInOrderAllocs(t *testing.T) {
	var b Book
	gaps, next, n := Gaps{}, uint64(0), uint64(0)
	if allocs := testing.AllocsPerRun(100, func() { b.Enter(gaps, 1, &next, n); n++ }); allocs > 0 || !b.OK() {
		t.Errorf("%v allocations, %+v", allocs, b)
	}
}

// TestTold: what a subscriber was told of is no loss, but no message that came either.
func TestTold(t *testing.T) {
	var b Book
	g, next := Gaps{}, uint64(0)
	b.Enter(g, 1, &next, 0)
	before := b
	b.Tell(&next, 4)
	b.Enter(g, 1, &next, 4)
	b.Tell(&next, 3)
	if got := b.Since(before); got != (Book{Received: 1, Told: 3}) || b.OK() || next != 5 || len(g) > 0 {
		t.Errorf("%+v, next %d, gaps %v", got, next, g)
	}
}
