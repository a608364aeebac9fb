package netio

import (
	"crypto/tls"
	"net"
)

// replay is a connection of which some bytes, early, were read before. One goroutine at a time
// may read.
type replay struct {
	net.Conn
	remote net.Addr
	early  []byte
	broken error // of the reads after early; nil: they are those of Conn
}

// NewReplay returns a connection that reads early and then nc, or gets the error broken then if that is
// not nil. remote is its RemoteAddr, also if nc does not know that any more. If nc is a *tls.Conn,
// net/http finds the state of TLS.
func NewReplay(nc net.Conn, remote net.Addr, early []byte, broken error) net.Conn {
	r := replay{Conn: nc, remote: remote, early: early, broken: broken}
	t, ok := nc.(*tls.Conn)
	switch {
	case !ok:
		return &r
	case len(early) == 0:
		return t
	}
	return &secureReplay{r, t}
}

func (r *replay) RemoteAddr() net.Addr { return r.remote }

func (r *replay) Read(p []byte) (int, error) {
	switch {
	case len(r.early) > 0:
	case r.broken != nil:
		return 0, r.broken
	default:
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
// as that of WebSocket does. It returns nil while early is not read, and if nothing can follow.
func (r *replay) Bare() net.Conn {
	if len(r.early) > 0 || r.broken != nil {
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
