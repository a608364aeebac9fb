//go:build !race

package metrics_test

import (
	"testing"

	"github.com/gyrohq/gyro/metrics"
)

// TestTurnAllocations: turns come by the ten thousand per second, on loops.
func TestTurnAllocations(t *testing.T) {
	o := metrics.New(metrics.Config{}).Observer()
	turn := busy()
	if got := testing.AllocsPerRun(1000, func() { o.Turn(turn) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkTurn(b *testing.B) {
	for name, native := range map[string]bool{"classic": false, "native": true} {
		b.Run(name, func(b *testing.B) {
			o := metrics.New(metrics.Config{NativeHistograms: native}).Observer()
			turn := busy()
			b.ReportAllocs()
			for b.Loop() {
				o.Turn(turn)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(turn.Commands)), "ns/command")
		})
	}
}

func BenchmarkSmallTurn(b *testing.B) {
	o := metrics.New(metrics.Config{}).Observer()
	turn := busy()
	turn.Commands = turn.Commands[:1]
	turn.Transports = turn.Transports[:1]
	turn.Disconnects, turn.Unsubscribes = nil, nil
	for b.Loop() {
		o.Turn(turn)
	}
}
