package gcfloor

import (
	"runtime/debug"
	"testing"
)

var sink []byte

// Garbage is worth a collection when nothing is allocated any more, and only once.
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
	collected := 0
	for range 3 {
		if r.due() {
			debug.FreeOSMemory()
			collected++
		}
	}
	if collected != 1 {
		t.Errorf("%d collections of 36 MB of garbage", collected)
	}
}
