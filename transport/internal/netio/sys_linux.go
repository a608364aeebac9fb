package netio

import (
	"syscall"
	"unsafe"
)

// The descriptors are non-blocking: these calls never wait, so the scheduler need not
// know of them (package quiet).

// sysClose closes a socket, which without SO_LINGER, or with one of 0, does not wait.
func sysClose(fd uintptr) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0) }

// sysAccept accepts a connection without waiting. from is the address of the peer.
func sysAccept(fd uintptr, from *syscall.RawSockaddrAny) (uintptr, syscall.Errno) {
	size := uint32(syscall.SizeofSockaddrAny)
	nfd, _, errno := syscall.RawSyscall6(sysAccept4, fd, uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)),
		syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
	return nfd, errno
}
