//go:build !386

package quiet

import (
	"syscall"
	"unsafe"
)

const supported = true

// Read receives from a non-blocking socket, once: a shorter way through the kernel than
// read, by 50 ns of 1,300. The call never waits, so the scheduler need not know of it:
// that saves about 80 ns, too, and the processor is not handed to another thread when a
// call takes its time. p is not empty: that would be EAGAIN while nothing is there.
func Read(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// Write sends on a non-blocking socket, once: a shorter way through the kernel than
// write, and a closed connection is an error and no signal.
func Write(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}
