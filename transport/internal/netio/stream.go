package netio

import (
	"net"
	"time"
)

const (
	// readSize is what one read takes at most.
	readSize = 16 << 10
	// idleSize is the buffer that a stream without readiness has to wait with.
	idleSize = 512
	// gatherSize bounds the bytes of small frames that are copied into one write.
	// Copying them is cheaper than an element of writev each.
	gatherSize = 16 << 10
)

// Duplex is what NewStream needs of a connection. net.Conn has it.
type Duplex interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Close() error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Stream is a connection as transports use it. One goroutine may read while
// another one writes. TryWrite must not be called during Write, Close or Abort, or
// after the latter; the remaining methods may be called at any time.
type Stream interface {
	// Read waits for bytes and returns them in a buffer that the caller frees.
	// Nothing but the caller's goroutine is held while it waits, if the operating
	// system tells of readiness.
	Read() (*Buffer, error)
	// TryWrite writes as many bytes of frames as can be written without waiting
	// and returns their number, which is 0 for streams that cannot know. It leaves
	// frames and their bytes as they are. Running out of room is no error.
	TryWrite(frames [][]byte) (int, error)
	// Write writes all of p and waits for at most timeout.
	Write(p []byte, timeout time.Duration) error
	// SetReadDeadline bounds Read; a time in the past wakes it.
	SetReadDeadline(t time.Time)
	// CloseWrite ends the outgoing direction if the connection can do that alone.
	CloseWrite()
	// Close closes the connection. Over TLS it may wait for its farewell.
	Close()
	// Abort closes the connection at once and drops what was not sent.
	Abort()
}

// wrapper is a connection around another one that may step aside.
type wrapper interface {
	// Bare returns the connection beneath, which is used in its place from now on, or
	// nil if what goes through is not the same.
	Bare() net.Conn
}

// bare is what is left of d without wrappers.
func bare(d Duplex) Duplex {
	for {
		w, ok := d.(wrapper)
		if !ok {
			return d
		}
		inner := w.Bare()
		if inner == nil {
			return d
		}
		d = inner
	}
}

// NewStream makes a Stream of d, which it owns from now on. TCP and Unix sockets get
// non-blocking I/O where the system has it, in another type only if that has a method
// Bare() net.Conn, which returns the socket.
func NewStream(d Duplex) Stream {
	if s := newSocket(d); s != nil {
		return s
	}
	return &blocking{d: d}
}

// blocking is a stream of a connection that cannot tell when it is ready.
type blocking struct {
	d    Duplex
	more bool  // the last read filled its buffer: there is probably more
	err  error // came along with the last bytes
}

func (s *blocking) Read() (*Buffer, error) {
	if err := s.err; err != nil {
		s.err = nil
		return nil, err
	}
	size := idleSize
	if s.more {
		size = readSize
	}
	b := Get(size)
	for {
		n, err := s.d.Read(b.B[:size])
		if n > 0 {
			b.B, s.more, s.err = b.B[:n], n == size, err
			return b, nil
		}
		if err != nil {
			b.Free()
			return nil, err
		}
	}
}

func (s *blocking) TryWrite([][]byte) (int, error) { return 0, nil }

func (s *blocking) Write(p []byte, timeout time.Duration) error {
	if err := s.d.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := s.d.Write(p); err != nil {
		return err
	}
	return s.d.SetWriteDeadline(time.Time{})
}

func (s *blocking) SetReadDeadline(t time.Time) { _ = s.d.SetReadDeadline(t) }
func (s *blocking) Close()                      { _ = s.d.Close() }
func (s *blocking) Abort()                      { abort(s.d) }

func (s *blocking) CloseWrite() {
	if c, ok := s.d.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}

// abort resets TCP connections, so that neither the kernel's buffers nor a
// farewell of TLS outlive a peer that does not read. A Duplex may know better.
func abort(d Duplex) {
	if c, ok := d.(interface{ Abort() }); ok {
		c.Abort()
		return
	}
	if c, ok := d.(interface{ NetConn() net.Conn }); ok {
		abort(c.NetConn())
		return
	}
	if c, ok := d.(interface{ SetLinger(int) error }); ok {
		_ = c.SetLinger(0)
	}
	_ = d.Close()
}
