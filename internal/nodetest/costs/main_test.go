//go:build !race

package costs

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// undisturbed has a node do nothing by itself for its clients, which would count as what a test does: the slower the
// machine, the more of it.
func undisturbed(cfg gyro.Config) gyro.Config {
	cfg.PingInterval, cfg.PresenceUpdateInterval, cfg.PositionCheckDelay = -1, time.Hour, time.Hour
	return cfg
}

// allocations is testing.AllocsPerRun, until the result is within the budget: on a busy machine loops run when others
// have published and written more than usual, and the first times they have to make room for that. What is really
// above the budget is so every time.
func allocations(budget float64, runs int, f func()) (got float64) {
	for range 20 {
		if got = testing.AllocsPerRun(runs, f); got <= budget {
			break
		}
	}
	return got
}

// liveHeap is the number of bytes that are reachable.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sink is a connection, or many of them, that takes everything at once, and tells when that was enough.
type sink struct {
	left atomic.Int64 // writes that are awaited
	all  chan struct{}
}

func newSink() *sink { return &sink{all: make(chan struct{}, 1)} }

// await calls do, and waits until n writes have come of it.
func (s *sink) await(n int, do func()) {
	s.left.Store(int64(n))
	do()
	<-s.all
}

func (s *sink) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
	}
	if s.left.Add(-1) == 0 {
		s.all <- struct{}{}
	}
	return n, nil
}

func (s *sink) Close(protocol.Disconnect, [][]byte) {}
func (s *sink) Pause(bool)                          {}

// info is that of the connections of a sink.
var info = transport.Info{Name: "sink", Framer: wstest.Framer(protocol.JSON)}
