package proc

import (
	"os"
	"testing"
)

// TestUsage reads this process.
func TestUsage(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	u, err := Read(os.Getpid())
	if err != nil || u.Memory < 1<<20 {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := Read(0); u != nil || err != nil {
		t.Errorf("%+v %v", u, err)
	}
	if _, err := Read(1 << 30); err == nil {
		t.Error("a process that is not there")
	}
}
