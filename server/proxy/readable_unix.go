//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// readable tells whether a read from the connection would return at once: with data, the end or
// an error. It does not block and reads nothing.
func readable(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	ready := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ready = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK
	})
	return ready || err != nil
}
