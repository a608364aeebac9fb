//go:build unix

package netio

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/gyrohq/gyro/quiet"
)

// socket is a stream of a plain socket, on which the kernel is asked directly.
type socket struct {
	blocking // for whatever is not asked directly
	raw      syscall.RawConn
	// fd is written to directly: RawConn.Write would guard it against being closed
	// meanwhile, which callers exclude, at a price of 100 ns when memory is cold.
	fd uintptr

	// Of the reading goroutine.
	onReadable func(fd uintptr) bool // tryRead, made once
	in         *Buffer
}

// newSocket returns nil if d is not a plain socket. Types that embed one do not
// count, unless they step aside: they may change what goes through.
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

// tryRead takes a buffer only for the moment of the system call.
func (s *socket) tryRead(fd uintptr) bool {
	b := Get(readSize)
	for {
		n, errno := quiet.Read(fd, b.B[:readSize])
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			b.Free()
			return false
		case errno != 0:
			s.err = os.NewSyscallError("read", errno)
		case n == 0:
			s.err = io.EOF
		default:
			b.B = b.B[:n]
			s.in = b
			return true
		}
		b.Free()
		return true
	}
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

// gather returns the bytes that go out with one system call, from frames[i] on:
// that frame as it is, or it and as many of its followers as are small.
func gather(frames [][]byte, i int) (p []byte, next int, b *Buffer) {
	size := len(frames[i])
	next = i + 1
	for next < len(frames) && size+len(frames[next]) <= gatherSize {
		size += len(frames[next])
		next++
	}
	if next == i+1 {
		return frames[i], next, nil
	}
	b = Get(size)
	for _, f := range frames[i:next] {
		b.B = append(b.B, f...)
	}
	return b.B, next, b
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

// TryRead reads what is there from a non-blocking descriptor: 0 if nothing is now,
// io.EOF at the end.
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

// Detach takes the descriptor of a plain TCP or Unix socket out of Go's runtime. It
// is non-blocking and belongs to the caller; s must not be used any more. If it
// is false, nothing has happened to s.
func Detach(s Stream) (fd uintptr, ok bool) {
	sock, ok := s.(*socket)
	if !ok {
		return 0, false
	}
	dup, err := dupCloseOnExec(sock.fd)
	if err != nil {
		return 0, false
	}
	sock.Close()
	return dup, true
}

// dupCloseOnExec makes another descriptor of the same socket.
func dupCloseOnExec(fd uintptr) (uintptr, error) {
	dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return 0, os.NewSyscallError("fcntl", errno)
	}
	return dup, nil
}

// Attach gives a descriptor back to Go's runtime. It is closed if that fails.
func Attach(fd uintptr) (net.Conn, error) {
	f := os.NewFile(fd, "socket")
	defer f.Close()
	return net.FileConn(f)
}

// CloseFD closes a socket; with reset at once, dropping what was not sent.
func CloseFD(fd uintptr, reset bool) {
	if reset {
		_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
	}
	sysClose(fd)
}

// ShutdownWrite ends the outgoing direction of a socket.
func ShutdownWrite(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_WR) }
