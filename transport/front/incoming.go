package front

import (
	"errors"
	"net"
	"os"
	"sync"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// incoming is a connection on its way to net/http, or to a goroutine of the front.
type incoming struct {
	conn   net.Conn        // nil: it is to be made of socket
	socket *netio.Handover // nil: there is conn
	remote net.Addr        // also if the peer has gone meanwhile
	early  []byte          // was read already
	// mayAnswer: the first request may be one for a route with Answer.
	mayAnswer bool
}

// newIncoming takes s and early over.
func newIncoming(s netio.Socket, early []byte, mayAnswer bool) *incoming {
	return &incoming{
		socket: netio.NewHandover(s.FD), remote: net.TCPAddrFromAddrPort(s.Remote), early: early, mayAnswer: mayAnswer,
	}
}

func (in *incoming) close() {
	if in.conn != nil {
		_ = in.conn.Close()
		return
	}
	in.socket.Close()
}

// spare keeps a descriptor back. To make a connection of a socket takes another one for
// a moment: connections that wait for one would hold all the others, and those of clients
// that have left could not even be closed.
type spare struct {
	mu    sync.Mutex
	file  *os.File // nil: there was none to keep, which is no reason to stop
	ended bool
}

// convert makes in.conn if need be.
func (s *spare) convert(in *incoming) (err error) {
	if in.conn != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in.conn, err = in.socket.Conn()
	if err != nil && s.file != nil && isShort(err) {
		_ = s.file.Close()
		s.file = nil
		in.conn, err = in.socket.Conn()
	}
	s.keep()
	return err
}

// isShort reports whether err is for the lack of something.
func isShort(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Temporary() //nolint:staticcheck // it is what net/http goes by
}

// keep is called with the lock held, or before anybody else knows of s.
func (s *spare) keep() {
	if s.file == nil && !s.ended {
		s.file, _ = os.Open(os.DevNull)
	}
}

func (s *spare) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.file != nil {
		_ = s.file.Close()
	}
}

// replay is a connection some bytes of which were read before. Like net/http, it knows
// one reader at a time.
type replay struct {
	net.Conn
	remote net.Addr
	early  []byte
}

// RemoteAddr implements net.Conn.
func (r *replay) RemoteAddr() net.Addr { return r.remote }

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.early) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.early)
	if r.early = r.early[n:]; len(r.early) == 0 {
		r.early = nil
	}
	return n, nil
}

// Bare lets who takes the connection from the server, as WebSocket does, have it as it
// came; nil while there are bytes that only Read returns.
func (r *replay) Bare() net.Conn {
	if len(r.early) > 0 {
		return nil
	}
	return r.Conn
}

// CloseWrite lets net/http close gently.
func (r *replay) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
