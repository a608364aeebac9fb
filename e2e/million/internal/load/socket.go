//go:build linux

package load

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"unsafe"
)

type address = syscall.RawSockaddrInet4

func parse(ip string, port int) (a address, err error) {
	parsed := net.ParseIP(ip).To4()
	if parsed == nil || port < 0 || port > 1<<16-1 {
		return a, fmt.Errorf("%q and %d are no IPv4 address and port", ip, port)
	}
	a.Family, a.Addr = syscall.AF_INET, [4]byte(parsed)
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&a.Port))[:], uint16(port))
	return a, nil
}

func parseNode(text string) (a address, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return a, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return a, err
	}
	return parse(host, n)
}

// dial begins a connection, from any address if source is nil. It tells the Go scheduler nothing, as package quiet: none
// of these calls blocks. An error comes with the socket, or -1.
func dial(source, to *address) (fd int, during string, errno syscall.Errno) {
	s, _, errno := syscall.RawSyscall(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return -1, "socket", errno
	}
	if source != nil {
		const ipBindAddressNoPort = 24 // connect chooses a port that is free for this node; there are more of them
		on := int32(1)
		if _, _, errno = syscall.RawSyscall6(syscall.SYS_SETSOCKOPT, s, syscall.IPPROTO_IP, ipBindAddressNoPort, uintptr(unsafe.Pointer(&on)), unsafe.Sizeof(on), 0); errno != 0 {
			return int(s), "setsockopt", errno
		}
		if _, _, errno = syscall.RawSyscall(syscall.SYS_BIND, s, uintptr(unsafe.Pointer(source)), unsafe.Sizeof(*source)); errno != 0 {
			return int(s), "bind", errno
		}
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CONNECT, s, uintptr(unsafe.Pointer(to)), unsafe.Sizeof(*to)); errno == syscall.EINPROGRESS {
		errno = 0
	}
	return int(s), "connect", errno
}

func hangUp(fd int32) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0) } // it is of no use any more
