//go:build unix

package procstat

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time in the kernel and outside of it.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
