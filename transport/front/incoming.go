package front

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// incoming is a connection on its way to net/http, or to a goroutine of the front.
type incoming struct {
	conn   net.Conn        // nil: it has yet to be made of socket
	socket *netio.Handover // nil: there is conn
	remote net.Addr        // known also if the peer has gone meanwhile
	early  []byte          // bytes that were read already
	tls    *netio.TLS      // has yet to be put on conn; nil: there is none, or conn is a *tls.Conn
	sealed []byte          // bytes that were read beneath tls
	// mayAnswer: the first request may be one for a route with Answer.
	mayAnswer bool
}

// newIncoming returns an incoming that owns s and early.
func newIncoming(s netio.Socket, early []byte, mayAnswer bool) *incoming {
	return &incoming{
		socket: netio.NewHandover(s.FD), remote: net.TCPAddrFromAddrPort(s.Remote), early: early, mayAnswer: mayAnswer,
	}
}

// secure puts TLS on the connection, if there is any.
func (in *incoming) secure() {
	if in.tls != nil {
		in.conn = in.tls.Block(&replay{Conn: in.conn, remote: in.remote, early: in.sealed})
		in.tls, in.sealed = nil, nil
	}
}

// replayed returns the connection for net/http.
func (in *incoming) replayed() net.Conn {
	r := replay{Conn: in.conn, remote: in.remote, early: in.early}
	t, ok := in.conn.(*tls.Conn)
	switch {
	case !ok:
		return &r
	case len(in.early) == 0:
		return t
	}
	return &secureReplay{r, t}
}

func (in *incoming) close() {
	if in.conn != nil {
		_ = in.conn.Close()
		return
	}
	in.socket.Close()
}

// spare keeps a descriptor in reserve. To make a net.Conn of a socket takes another descriptor
// for a moment. If sockets hold all descriptors, none could be converted without the reserve,
// and not even those of clients that have left would be closed.
type spare struct {
	mu    sync.Mutex
	file  *os.File // nil: no descriptor was free
	ended bool
}

// convert makes in.conn if it is nil.
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

// isShort reports whether err tells of a shortage, such as of descriptors.
func isShort(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Temporary() //nolint:staticcheck // net/http asks the same
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

// replay is a connection of which some bytes, early, were read before. One goroutine at a time
// may read.
type replay struct {
	net.Conn
	remote net.Addr
	early  []byte
}

func (r *replay) RemoteAddr() net.Addr { return r.remote }

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

// secureReplay is a replay of a TLS connection. net/http finds the state by its method.
type secureReplay struct {
	replay
	tls *tls.Conn
}

func (r *secureReplay) ConnectionState() tls.ConnectionState { return r.tls.ConnectionState() }

// Bare returns the connection beneath, for a handler that takes the connection from the server,
// as that of WebSocket does. It returns nil while early is not read.
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
