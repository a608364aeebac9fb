//go:build !race

package costs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
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

// bytesEach returns how many bytes of the heap each of n things keeps that add adds.
func bytesEach(tb testing.TB, n int, add func()) int64 {
	tb.Helper()
	before := restingHeap(tb)
	add()
	return (restingHeap(tb) - before) / int64(n)
}

// alone waits until all goroutines of earlier tests have ended. What they hold would go while a test measures, and so
// count as memory that the test frees. The test calls it before it begins any goroutine.
func alone(tb testing.TB) {
	tb.Helper()
	wait.Success(tb, "all other tests have ended", func() error { return goleak.Find() })
}

// restingHeap is the number of bytes that are reachable, once that and the number of goroutines have not changed for
// some looks: the server's part of a handshake, for example, ends after the client's.
func restingHeap(tb testing.TB) (live int64) {
	tb.Helper()
	const looks, slack = 4, 4 << 10 // nodes at rest have timers and canaries
	goroutines, same := 0, 0
	wait.Until(tb, "the heap is at rest", func() bool {
		now, n := liveHeap(), runtime.NumGoroutine()
		if same++; n != goroutines || now < live-slack || now > live+slack {
			same, live, goroutines = 0, now, n
		}
		return same == looks
	})
	return live
}

// liveHeap is the number of bytes that are reachable.
func liveHeap() int64 {
	var m runtime.MemStats
	forgetTimers()
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// forgetTimers makes the runtime forget stopped timers. It keeps them, and all that their functions lead to, such as a
// whole node, until they are a fourth of all timers of a processor.
func forgetTimers() {
	processors := int32(runtime.GOMAXPROCS(0))
	var there atomic.Int32
	var work sync.WaitGroup
	for range processors {
		work.Go(func() {
			there.Add(1)
			for there.Load() < processors { // so that each is on a processor of its own
			}
			timers := make([]*time.Timer, 1000)
			for i := range timers {
				timers[i] = time.AfterFunc(time.Hour, func() {})
			}
			for _, t := range timers {
				t.Stop()
			}
			runtime.Gosched()
		})
	}
	work.Wait()
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
