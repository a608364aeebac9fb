package gcfloor

import (
	"runtime/debug"
	"testing"
)

var sink []byte

// Garbage is worth a collection when nothing is allocated any more, and only once. What a resting process goes on allocating waits for
// two minutes, unless it becomes much less.
func TestRest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only the test collects
	r := newResting()
	debug.FreeOSMemory()
	r.due()
	if r.due() {
		t.Error("collects a heap without garbage")
	}
	for range 64 {
		sink = make([]byte, 64<<10)
	}
	sink = make([]byte, 32<<20)
	sink = nil
	if r.due() {
		t.Error("collects while much is allocated")
	}
	collections := func(periods, garbage int) (n int) {
		for range periods {
			sink = make([]byte, garbage)
			if r.due() {
				debug.FreeOSMemory()
				n++
			}
		}
		sink = nil
		return n
	}
	if n := collections(2*settled, 0); n != 1 {
		t.Errorf("%d collections of 36 MB of garbage", n)
	}
	if n := collections(again-2*settled, 1<<20); n != 0 {
		t.Errorf("%d collections within two minutes", n)
	}
	if n := collections(2*settled, 1<<20); n != 1 {
		t.Errorf("%d collections after two minutes", n)
	}
	if n := collections(again/2, 1<<20); n != 0 {
		t.Errorf("%d collections at once behind these", n)
	}
	if n := collections(2*settled, 64<<10); n != 1 {
		t.Errorf("%d collections when the process allocates less", n)
	}
	sink = make([]byte, 32<<20)
	if r.due() || collections(settled, 0) != 1 {
		t.Error("no collection after a busy period")
	}
}
