//go:build unix

package netio

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/gyrohq/gyro/quiet"
)

type socket struct {
	blocking // the other methods
	raw      syscall.RawConn
	// fd is written to without RawConn.Write, which takes up to 100 ns to guard fd against being closed. Callers of
	// TryWrite exclude that.
	fd uintptr

	// used by the goroutine that reads
	onReadable func(fd uintptr) bool // tryRead, made once
	in         *Buffer
}

// newSocket returns nil if d is not a plain socket. A type that embeds one may change the bytes, so it is used as it is
// unless it is a wrapper.
func newSocket(d Duplex) Stream {
	var raw syscall.RawConn
	d = bare(d)
	var err error
	switch c := d.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	s := &socket{blocking: blocking{d: d}, raw: raw}
	if raw.Control(func(fd uintptr) { s.fd = fd }) != nil {
		return nil
	}
	s.onReadable = s.tryRead
	return s
}

func (s *socket) Read() (*Buffer, error) {
	err := s.raw.Read(s.onReadable)
	b := s.in
	s.in = nil
	if err != nil {
		b.Free()
		return nil, err
	}
	return b, s.err
}

// tryRead holds a buffer during the system call only, unless there is something to read. False: there is nothing yet.
func (s *socket) tryRead(fd uintptr) bool {
	b := Get(readSize)
	n, err := TryRead(fd, b.B[:readSize])
	if n > 0 {
		b.B = b.B[:n]
		s.in = b
		return true
	}
	b.Free()
	s.err = err
	return err != nil
}

func (s *socket) TryWrite(frames [][]byte) (int, error) { return TryWrite(s.fd, frames) }

// TryWrite is Stream.TryWrite for a non-blocking descriptor.
func TryWrite(fd uintptr, frames [][]byte) (int, error) {
	total := 0
	for i := 0; i < len(frames); {
		if len(frames[i]) == 0 {
			i++
			continue
		}
		p, next, gathered := gather(frames, i)
		n, err := tryWrite(fd, p)
		gathered.Free()
		total += n
		if n < len(p) || err != nil {
			return total, err
		}
		i = next
	}
	return total, nil
}

func tryWrite(fd uintptr, p []byte) (int, error) {
	for {
		n, errno := quiet.Write(fd, p)
		switch errno {
		case 0:
			return n, nil
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, os.NewSyscallError("write", errno)
		}
	}
}

// TryRead reads from a non-blocking descriptor: 0 if there is nothing now, io.EOF at the end.
func TryRead(fd uintptr, p []byte) (int, error) {
	for {
		n, errno := quiet.Read(fd, p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return 0, nil
		case errno != 0:
			return 0, os.NewSyscallError("read", errno)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Detach takes the descriptor of a TCP or Unix socket out of Go's runtime, and the TLS of this package above it, or nil.
// The descriptor is non-blocking and the caller's; s must not be used any more. !ok: s is as it was.
func Detach(s Stream) (fd uintptr, t *TLS, ok bool) {
	if b, blocks := s.(*blocking); blocks {
		if t = tlsOf(b.d); t == nil {
			return 0, nil, false
		}
		s = newSocket(t.wire.Conn)
	}
	sock, ok := s.(*socket)
	if !ok {
		return 0, nil, false
	}
	dup, err := dupCloseOnExec(sock.fd)
	if err != nil {
		return 0, nil, false
	}
	sock.Close()
	return dup, t, true
}

func tlsOf(d Duplex) *TLS {
	if c, ok := d.(*tls.Conn); ok {
		if w, ok := c.NetConn().(*wire); ok {
			return w.of
		}
	}
	return nil
}

func dupCloseOnExec(fd uintptr) (uintptr, error) {
	dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("fcntl", errno)
	}
	return dup, nil
}

// CloseFD closes a socket; with reset, bytes that were not sent are dropped.
func CloseFD(fd uintptr, reset bool) {
	if reset {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	sysClose(fd)
}

// ShutdownWrite ends the outgoing direction of a socket.
func ShutdownWrite(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) }
