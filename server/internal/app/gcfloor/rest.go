package gcfloor

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/gyrohq/gyro/quiet"
)

const (
	// restPeriod is how often Rest looks at the heap.
	restPeriod = 2 * time.Second
	// restRate is how many bytes a resting process allocates in a period at most, or an eighth of the live heap if that
	// is more.
	restRate = 2 << 20
	// worth is how much garbage and free memory justify a collection, or an eighth of the live heap if that is more.
	worth = 4 << 20
	// A process is quieter if for settled periods it allocates at most 1/calmer of its peak since the last collection.
	// Other garbage waits for again periods, 2 minutes as in Go's own collector, because a collection costs an idle
	// process more than 20 s of its other work.
	calmer  = 4
	settled = 3
	again   = 60
)

// Rest gives memory back to the system when the process has become quiet, until ctx ends. After many clients have
// connected, half of the heap may be garbage, which Go collects after two minutes and mostly keeps. Rest does nothing if
// the environment has GOGC.
func Rest(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTimer(quiet.UntilBeat(restPeriod))
	defer tick.Stop()
	r := newResting()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(quiet.UntilBeat(restPeriod))
			if r.due() {
				debug.FreeOSMemory()
			}
		}
	}
}

// resting notices that a process has become quiet, on one goroutine.
type resting struct {
	samples   []metrics.Sample
	allocated uint64 // since the start of the process, when due was called
	peak      uint64 // the most in a period since the last collection
	calm      int    // periods at a fraction of it, one after the other
	left      int    // periods until a process that has not become quieter collects
}

func newResting() *resting {
	return &resting{left: again, samples: []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}}
}

func (r *resting) due() bool {
	metrics.Read(r.samples)
	allocated, objects, live := r.samples[0].Value.Uint64(), r.samples[1].Value.Uint64(), r.samples[2].Value.Uint64()
	free := r.samples[3].Value.Uint64() // that the system does not have back yet
	grown := allocated - r.allocated
	r.allocated = allocated
	r.left = max(r.left-1, 0)
	r.peak = max(r.peak, grown)
	if r.calm++; grown*calmer >= r.peak {
		r.calm = 0
	}
	switch {
	case grown > max(live/8, restRate), r.left > 0 && r.calm < settled, objects+free <= live+max(live/8, worth):
		return false
	}
	r.peak, r.calm, r.left = 0, 0, again
	return true
}
