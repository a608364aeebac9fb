package route

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

func TestCounts(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		loops := []int{1, 2, 8, 64, 200}[seed%5]
		var s counts
		want := make(map[int]int) // by bit
		total := 0
		for range 300 {
			loop := r.IntN(loops)
			if want[loop%maxLoops] > 0 && r.IntN(2) == 0 {
				s.remove(loop)
				want[loop%maxLoops]--
				total--
			} else {
				s.add(loop)
				want[loop%maxLoops]++
				total++
			}
			for loop := range loops {
				if Loops(s.taken.Load()).Has(loop) != (want[loop%maxLoops] > 0) {
					t.Fatalf("seed %d: loop %d of %v", seed, loop, want)
				}
			}
			if s.empty() != (total == 0) {
				t.Fatalf("seed %d: empty with %d", seed, total)
			}
		}
		for loop := range loops {
			for ; loop < maxLoops && want[loop] > 0; want[loop]-- {
				s.remove(loop)
			}
		}
		if !s.empty() || s.more != nil || s.first.n != 0 {
			t.Fatalf("seed %d: left %+v", seed, s.first)
		}
	}
}

// A route is to fit into the allocator's size class of 48 bytes.
func TestRouteSize(t *testing.T) {
	if size := unsafe.Sizeof(Route{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 48 {
		t.Errorf("a route has %d bytes", size)
	}
}
