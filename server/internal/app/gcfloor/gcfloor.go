// Package gcfloor spares a process with a small heap most of its garbage collections. Go collects when the heap is twice
// the live heap, so a server with few clients and a live heap of 3 MB collects after each 3 MB: 4% of the cost of a new
// connection. With a floor it collects when the heap reaches the floor. Rest gives back memory that a process needed
// while it was busy.
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
	// smallest is the heap below which Go does not collect with GOGC=100. It is proportional to GOGC.
	smallest = 4 << 20
	// step is the smallest change of GOGC in percent: setting it stops the program for a moment.
	step = 10
)

// Set sets the floor of the heap in bytes, once per process. It does nothing if the environment has GOGC. GOMEMLIMIT
// stays in effect.
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

// keeper adjusts GOGC after each collection, on one goroutine at a time.
type keeper struct {
	floor   uint64
	percent int
	samples []metrics.Sample // the live heap, and all else that the percentage refers to
}

// sentinel is garbage that each collection finds. With a pointer, it gets an allocation of its own.
type sentinel struct{ _ *byte }

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

// percent returns the GOGC with which Go collects a heap with alive live bytes at the floor, but not before it has grown
// by base bytes, which GOGC is a percentage of.
func percent(floor, alive, base uint64) int {
	if alive >= floor {
		return usual
	}
	return int(max(min((floor-alive)*100/max(base, 1), floor*100/smallest), usual))
}
