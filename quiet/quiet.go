// Package quiet reads and writes sockets without telling the Go scheduler. It is for transports and engines whose
// connections carry many small messages. UntilBeat also gives all repeated jobs of an idle process common moments.
//
// A system call of package net wakes the scheduler's monitor, a thread that then checks
// every 20 us, for a millisecond or more, whether the call blocks. The call never blocks,
// because the sockets are non-blocking. But each check takes the processor from other
// threads. While a loop sends one publication to thousands of clients this happens a hundred
// times, which costs half as much as the sending.
package quiet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Conn returns a connection whose Read and Write are quiet, and all other methods of net.Conn are nc's. If nc is not a
// socket, or the system is not Linux on another processor than 386, it returns nc itself.
func Conn(nc net.Conn) net.Conn {
	if !supported {
		return nc
	}
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nc
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nc // it is closed; Read and Write will say so
	}
	c := &conn{Conn: nc}
	c.in.init(nc, "read", raw.Read, Read)
	c.out.init(nc, "write", raw.Write, Write)
	return c
}

// Pending returns a function that reports whether a read from nc would return at once: with data, the end of the stream
// or an error. It reads nothing and does not wait. One goroutine may call it at a time. Where that cannot be found out,
// because nc is not a socket or the system is not Unix, it reports false.
func Pending(nc net.Conn) func() bool {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return func() bool { return false }
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return func() bool { return true }
	}
	pending := false
	look := func(fd uintptr) { pending = peek(fd) != syscall.EAGAIN }
	return func() bool { return raw.Control(look) != nil || pending }
}

type conn struct {
	net.Conn
	in, out way
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.in.move(p, false)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Write(p []byte) (int, error) { return c.out.move(p, true) }

// way is a direction of a connection. It does one call at a time.
type way struct {
	nc   net.Conn
	op   string
	wait func(func(uintptr) bool) error
	call func(uintptr, []byte) (int, syscall.Errno)
	step func(uintptr) bool // try, made once

	mu    sync.Mutex
	p     []byte
	all   bool
	n     int
	errno syscall.Errno
}

func (w *way) init(nc net.Conn, op string, wait func(func(uintptr) bool) error, call func(uintptr, []byte) (int, syscall.Errno)) {
	w.nc, w.op, w.wait, w.call = nc, op, wait, call
	w.step = w.try
}

func (w *way) move(p []byte, all bool) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.p, w.all, w.n, w.errno = p, all, 0, 0
	err := w.wait(w.step)
	w.p = nil
	return w.n, w.outcome(w.errno, err)
}

func (w *way) outcome(errno syscall.Errno, err error) error {
	switch {
	case errno != 0:
		err = os.NewSyscallError(w.op, errno)
	case err == nil:
		return nil
	}
	if failure, ok := err.(*net.OpError); ok { //nolint:errorlint // it is made by package net
		err = failure.Err
	}
	return &net.OpError{Op: w.op, Net: w.nc.RemoteAddr().Network(), Source: w.nc.LocalAddr(), Addr: w.nc.RemoteAddr(), Err: err}
}

func (w *way) try(fd uintptr) bool {
	for {
		n, errno := w.call(fd, w.p[w.n:])
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			w.errno = errno
			return true
		}
		w.n += n
		if !w.all || w.n == len(w.p) {
			return true
		}
	}
}
