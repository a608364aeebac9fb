//go:build unix

package wire

import (
	"fmt"
	"syscall"
)

// EnsureFiles raises this process's limit of descriptors to the maximum, and fails if that is below n. If the limits
// cannot be read, it does nothing.
func EnsureFiles(n int) error {
	if limit, ok := fileLimit(); ok && uint64(n) > limit {
		return fmt.Errorf("%d descriptors are needed, the limit of this process is %d: raise it (ulimit -n), or use fewer connections", n, limit)
	}
	return nil
}

func fileLimit() (files uint64, ok bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	raised := limit
	raised.Cur = raised.Max
	if limit.Cur < limit.Max && syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
		limit = raised
	}
	return uint64(limit.Cur), true //nolint:unconvert // signed on FreeBSD
}
