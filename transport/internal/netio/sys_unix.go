//go:build unix && !linux

package netio

import "syscall"

func sysClose(fd uintptr) { _ = syscall.Close(int(fd)) }
