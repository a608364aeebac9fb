package procstat

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/inspect"
)

// TestMeter: CPU is what was used since the measurement before, and nothing is measured more often than every 3 s.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used, rss := 10*time.Second, int64(100)
		var broken error
		m := newMeter(func() (time.Duration, error) { return used, broken }, func() (int64, error) { return rss, broken })
		want := func(cpu float64, bytes int64) {
			t.Helper()
			if got := m.Process(); got != (inspect.Process{CPU: cpu, RSS: bytes}) {
				t.Errorf("%+v, want %g%% and %d bytes", got, cpu, bytes)
			}
		}
		want(0, 100)
		used, rss = 13*time.Second, 200
		time.Sleep(2 * time.Second)
		m.Tick()
		want(0, 100) // not yet
		time.Sleep(time.Second)
		m.Tick()
		want(100, 200)
		used += 9 * time.Second
		time.Sleep(6 * time.Second) // ticks that came late
		m.Tick()
		want(150, 200)
		broken = errors.New("no such file")
		time.Sleep(3 * time.Second)
		m.Tick()
		if p := m.Process(); p.CPU != 150 || p.RSS < 100_000 {
			t.Errorf("without numbers of the system: %+v", p)
		}
	})
}

// TestProcess measures this process.
func TestProcess(t *testing.T) {
	m := New()
	if rss := m.Process().RSS; rss < 1<<20 || rss > 1<<34 {
		t.Errorf("%d bytes are resident", rss)
	}
	if runtime.GOOS != "linux" {
		return
	}
	before, err := cpuTime()
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after == before; { // the clock of the CPU goes on while this spins
		if after, err = cpuTime(); err != nil {
			t.Fatal(err)
		}
	}
}
