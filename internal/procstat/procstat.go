// Package procstat measures the processor time and memory that the process uses.
package procstat

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/inspect"
)

const every = 3 * time.Second

// Meter measures the process. Any goroutine may use it.
type Meter struct {
	newest atomic.Pointer[inspect.Process]
	cpu    func() (time.Duration, error)
	rss    func() (int64, error)

	mu   sync.Mutex
	at   time.Time     // of the newest measurement
	used time.Duration // of CPU, until then
}

func New() *Meter { return newMeter(cpuTime, resident) }

func newMeter(cpu func() (time.Duration, error), rss func() (int64, error)) *Meter {
	m := &Meter{cpu: cpu, rss: rss}
	m.newest.Store(new(inspect.Process))
	m.measure(time.Now())
	return m
}

// Process returns the newest measurement.
func (m *Meter) Process() inspect.Process { return *m.newest.Load() }

// Tick measures if it is time to. It is called about once per second.
func (m *Meter) Tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.at) >= every {
		m.measure(now)
	}
}

// A figure that cannot be measured keeps its last value.
func (m *Meter) measure(now time.Time) {
	p := m.Process()
	if used, err := m.cpu(); err == nil {
		if passed := now.Sub(m.at); !m.at.IsZero() && passed > 0 {
			p.CPU = 100 * float64(max(used-m.used, 0)) / float64(passed)
		}
		m.used = used
	}
	m.at = now
	rss, err := m.rss()
	if err != nil {
		rss = runtimeMemory()
	}
	p.RSS = rss
	m.newest.Store(&p)
}

// runtimeMemory is what the Go runtime has from the system and has not given back.
func runtimeMemory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
