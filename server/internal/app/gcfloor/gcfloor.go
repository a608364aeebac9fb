// Package gcfloor spares a process with a small heap most of its garbage collections. Go collects when the heap has
// twice the size of the live heap, so a server with a few clients, whose live heap is 3 MB, collects after each 3 MB
// that it allocates: 4% of the cost of a new connection. With a floor it collects when the heap reaches the floor. A
// heap that is alive for more than half of the floor is collected as usual. Rest gives memory back that a process
// needed while it was busy.
package gcfloor

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// usual is Go's default of GOGC, in percent.
	usual = 100
	// smallest is the heap below which Go does not collect if GOGC is 100. It is proportional to GOGC.
	smallest = 4 << 20
	// step is by how many percent of the percentage a new one has to differ, because setting it stops
	// the program for a moment.
	step = 10
)

// Set sets the floor of the heap, in bytes, for the rest of the process's life. It does nothing if the
// environment has GOGC, which an operator has set, and if it was called before. The limit GOMEMLIMIT
// counts as without a floor.
func Set(floor uint64) {
	if os.Getenv("GOGC") == "" {
		once.Do(func() { start(floor) })
	}
}

var once sync.Once

func start(floor uint64) {
	f := &keeper{floor: floor, percent: usual, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"},
	}}
	f.adjust()
	f.watch()
}

// keeper adjusts GOGC after each collection. One goroutine uses it at a time.
type keeper struct {
	floor   uint64
	percent int
	samples []metrics.Sample // the live heap, and all else that the percentage refers to
}

// sentinel is garbage that each collection finds. It has a pointer, so that it is not allocated together
// with other things.
type sentinel struct{ _ *byte }

// watch calls adjust after the next collection, and so on.
func (f *keeper) watch() {
	runtime.AddCleanup(new(sentinel), func(f *keeper) {
		f.adjust()
		f.watch()
	}, f)
}

func (f *keeper) adjust() {
	metrics.Read(f.samples)
	alive := f.samples[0].Value.Uint64()
	base := alive + f.samples[1].Value.Uint64() + f.samples[2].Value.Uint64()
	if want := percent(f.floor, alive, base); want*100 > f.percent*(100+step) || want*100 < f.percent*(100-step) {
		f.percent = want
		debug.SetGCPercent(want)
	}
}

// percent returns the GOGC that makes Go collect a heap with alive live bytes at the floor, but not before the heap has
// grown by base bytes. base is the size that GOGC is a percentage of.
func percent(floor, alive, base uint64) int {
	if alive >= floor {
		return usual
	}
	return int(max(min((floor-alive)*100/max(base, 1), floor*100/smallest), usual))
}
