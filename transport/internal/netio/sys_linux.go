package netio

import (
	"syscall"
	"unsafe"
)

// These calls never wait, as the descriptors are non-blocking, so the scheduler need not know of them: see package
// quiet.

// sysClose does not wait without SO_LINGER, or with a linger time of 0.
func sysClose(fd uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0) }

func sysAccept(fd uintptr, from *syscall.RawSockaddrAny) (uintptr, syscall.Errno) {
	size := uint32(syscall.SizeofSockaddrAny)
	nfd, _, errno := syscall.RawSyscall6(sysAccept4, fd, uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)),
		syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	return nfd, errno
}
