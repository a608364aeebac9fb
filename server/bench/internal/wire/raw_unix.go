//go:build unix

package wire

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// rawReads lets a link wait for bytes without a buffer.
func rawReads(conn *net.TCPConn) syscall.RawConn {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil // closed; the first read shows it
	}
	return raw
}

// serveRaw is Serve without a buffer while nothing is there. All happens within one
// Read, and what comes meanwhile wakes it again, for Go watches sockets edge by
// edge: so there is no need to read until nothing is left.
func (l *Link) serveRaw(handle func([]byte) error) error {
	var end error
	err := l.raw.Read(func(fd uintptr) bool {
		end = l.turn(int(fd), handle)
		return end != nil
	})
	if end == nil {
		end = err
	}
	return end
}

// turn handles what is there.
func (l *Link) turn(fd int, handle func([]byte) error) error {
	for {
		dst := l.space()
		n, err := syscall.Read(fd, dst)
		switch {
		case n > 0:
			if err := l.took(n, handle); err != nil {
				return err
			}
			if n < len(dst) {
				return nil
			}
			continue
		case err == nil:
			err = io.EOF
		case errors.Is(err, syscall.EINTR):
			err = nil
		}
		l.release()
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
