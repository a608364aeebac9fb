//go:build !unix

package quiet

import "syscall"

const supported = false

// Read fails on this system.
func Read(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }

// Write fails on this system.
func Write(uintptr, []byte) (int, syscall.Errno) { return 0, syscall.EINVAL }

func peek(uintptr) syscall.Errno { return syscall.EAGAIN }
