//go:build !race

package metrics_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/observe/metrics"
)

// TestObserverAllocations: commands of backends come by the ten thousand per second.
func TestObserverAllocations(t *testing.T) {
	r := newRegistry(metrics.Config{Namespace: "gyro"})
	o, n := r.API("http"), r.Requests().Counter("/api/publish")
	res := api.Result(new(api.PublishResult))
	if got := testing.AllocsPerRun(5000, func() {
		o.Executed(api.MethodPublish, time.Millisecond, res, nil)
		n(http.MethodPost, http.StatusOK)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkObserver(b *testing.B) {
	for _, native := range []bool{false, true} {
		name := "classic"
		if native {
			name = "native"
		}
		b.Run(name, func(b *testing.B) {
			o := newRegistry(metrics.Config{Namespace: "gyro", NativeHistograms: native}).API("http")
			took := 10 * time.Microsecond
			b.ReportAllocs()
			for b.Loop() {
				o.Executed(api.MethodPublish, took, nil, nil)
				took = took*1103515245%time.Millisecond + 1
			}
		})
	}
}
