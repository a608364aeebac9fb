package quiet

import (
	"syscall"
	"unsafe"
)

const supported = true

// Read reads from a non-blocking descriptor, once. The call never waits, so the
// scheduler need not know of it: that saves about 80 ns, too, and the processor is not
// handed to another thread when a call takes its time.
func Read(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// Write sends on a non-blocking socket, once: a shorter way through the kernel than
// write, and a closed connection is an error and no signal.
func Write(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), errno
}
