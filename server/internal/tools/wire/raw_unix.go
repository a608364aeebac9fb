//go:build unix

package wire

import (
	"errors"
	"io"
	"net"
	"syscall"
)

func rawReads(conn *net.TCPConn) syscall.RawConn {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil // closed; the first read shows it
	}
	return raw
}

// serveRaw is Serve without a buffer while there is nothing to read, in one call of raw.Read. Go's poller is
// edge-triggered: bytes that arrive while readAll runs wake it again, so readAll need not read until EAGAIN.
func (c *Conn) serveRaw(handle func([]byte) error) error {
	var end error
	err := c.raw.Read(func(fd uintptr) bool {
		end = c.readAll(int(fd), handle)
		return end != nil
	})
	if end == nil {
		end = err
	}
	return end
}

func (c *Conn) readAll(fd int, handle func([]byte) error) error {
	read := syscall.Read
	if s := c.below; s != nil {
		s.fd, s.polled, s.dry = fd, true, false
		read = func(_ int, p []byte) (int, error) { return c.conn.Read(p) }
	}
	for {
		dst := c.space()
		n, err := read(fd, dst)
		switch {
		case n > 0:
			if err := c.took(n, handle); err != nil {
				return err
			}
			if n < len(dst) && c.below == nil {
				return nil
			}
			continue
		case err == nil:
			err = io.EOF
		case errors.Is(err, syscall.EINTR):
			err = nil
		}
		c.release()
		if errors.Is(err, syscall.EAGAIN) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Read waits until Serve has begun. Then it returns EAGAIN when there is nothing more, which TLS takes for temporary.
func (s *tcpConn) Read(p []byte) (int, error) {
	if !s.polled {
		return s.TCPConn.Read(p)
	}
	for !s.dry {
		n, err := syscall.Read(s.fd, p)
		switch {
		case n > 0:
			s.dry = n < len(p)
			return n, nil
		case err == nil:
			return 0, io.EOF
		case errors.Is(err, syscall.EAGAIN):
			s.dry = true
		case !errors.Is(err, syscall.EINTR):
			return 0, err
		}
	}
	return 0, syscall.EAGAIN
}
