package netio

import (
	"net"
	"time"
)

const (
	readSize = 16 << 10
	// idleSize is the buffer of a blocking stream while it waits.
	idleSize = 512
	// gatherSize bounds the small frames that are copied into one write, which is cheaper than an element of writev.
	gatherSize = 16 << 10
)

// Duplex has the methods of a connection that NewStream uses. net.Conn has them.
type Duplex interface {
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	Close() error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// Stream is a connection as transports use it. One goroutine may read while another one writes. TryWrite must not be
// called during Write, Close and Abort, nor after these two. The other methods may be called at any time.
type Stream interface {
	// Read waits for bytes and returns them in a buffer that the caller frees. Meanwhile a stream of a plain socket
	// holds no buffer.
	Read() (*Buffer, error)
	// TryWrite writes as many bytes of frames as is possible without waiting, and returns their number; 0 is no error,
	// and all that blocking streams write. It changes neither frames nor their bytes.
	TryWrite(frames [][]byte) (int, error)
	// Write writes all of p, within timeout.
	Write(p []byte, timeout time.Duration) error
	// SetReadDeadline bounds Read; a time in the past wakes it.
	SetReadDeadline(t time.Time)
	// CloseWrite ends the outgoing direction if that is possible.
	CloseWrite()
	// Close may wait over TLS until the closing alert is sent.
	Close()
	// Abort drops bytes that were not sent.
	Abort()
}

type wrapper interface {
	// Bare returns the inner connection, which is used from now on, or nil if the wrapper is still needed.
	Bare() net.Conn
}

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

// Early takes the bytes that were read already from a connection of net/http, which itself returns further ones that it
// has read.
func Early(d Duplex) []byte {
	for {
		if r, ok := d.(interface{ Early() []byte }); ok {
			return r.Early()
		}
		w, ok := d.(wrapper)
		if !ok {
			return nil
		}
		inner := w.Bare()
		if inner == nil {
			return nil
		}
		d = inner
	}
}

// NewStream makes a Stream of d, which it owns from now on. TCP and Unix sockets get non-blocking I/O where the system
// has it, also in a type whose method Bare() net.Conn returns the socket.
func NewStream(d Duplex) Stream {
	if s := newSocket(d); s != nil {
		return s
	}
	return &blocking{d: bare(d)}
}

// blocking is a stream of a connection that cannot tell when it is ready.
type blocking struct {
	d    Duplex
	more bool  // the last read filled its buffer, so there is probably more
	err  error // of the last read, which also returned bytes
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

// abort resets TCP connections, so that neither bytes in the kernel nor the closing alert of TLS wait for a peer that
// does not read.
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
