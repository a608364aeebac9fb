package gcfloor

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

func TestPercent(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		alive, base uint64
		want        int
	}{
		{0, 0, 400}, // before the first collection
		{mb / 10, mb / 10, 400},
		{1 * mb, 1 * mb, 400},
		{3 * mb, 4 * mb, 325},
		{8 * mb, 8 * mb, usual},
		{8 * mb, 9 * mb, usual},
		{100 * mb, 101 * mb, usual},
	} {
		if got := percent(16*mb, tt.alive, tt.base); got != tt.want {
			t.Errorf("%d bytes alive: %d%%, want %d%%", tt.alive, got, tt.want)
		}
	}
}

func goal() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A small heap grows to the floor, a large one to twice its size, and one that has become small again to
// the floor. With GOGC in the environment nothing changes.
func TestSet(t *testing.T) {
	if os.Getenv("GYRO_GCFLOOR") == "" { // in a process of its own: Set is for ever
		for _, gogc := range []string{"", "100"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestSet$", "-test.v")
			cmd.Env = append(os.Environ(), "GYRO_GCFLOOR=1", "GOGC="+gogc)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("GOGC=%q: %v\n%s", gogc, err, out)
			}
		}
		return
	}
	const floor = 64 << 20
	runtime.GC()
	Set(floor)
	if os.Getenv("GOGC") != "" {
		if got := debug.SetGCPercent(usual); got != usual {
			t.Errorf("GOGC is %d%%", got)
		}
		return
	}
	around := func(want uint64) {
		t.Helper()
		wait.Until(t, "the goal of the heap", func() bool {
			runtime.GC()
			got := goal()
			return got > want-want/5 && got < want+want/5
		})
	}
	around(floor)
	held := make([]byte, 128<<20)
	around(256 << 20)
	runtime.KeepAlive(held) // and no longer
	around(floor)
}
