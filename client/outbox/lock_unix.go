//go:build unix && !solaris && !aix

package outbox

import (
	"os"
	"syscall"
)

// lock keeps other programs, and other Files, off a file until it is closed.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func syncDir(d *os.File) error { return d.Sync() }
