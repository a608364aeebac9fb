package netio

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"sync"

	"github.com/gyrohq/gyro/transport/internal/smuggling"
)

// replay reads early, then the rest. One goroutine at a time may read.
type replay struct {
	net.Conn
	remote net.Addr

	mu     sync.Mutex // for the following fields, which a write may change
	early  []byte
	broken error             // of the reads after early; nil: Conn is read
	filter *smuggling.Filter // judges the bytes that are read; nil: they are not judged
}

// NewReplay returns a connection that reads early and then nc, or, if it is not nil, the error broken. remote is its
// RemoteAddr, also if nc does not know that any more.
func NewReplay(nc net.Conn, remote net.Addr, early []byte, broken error) net.Conn {
	return &replay{Conn: nc, remote: remote, early: early, broken: broken}
}

// NewRequests is NewReplay for net/http. Instead of a request whose end another server may see elsewhere, it reads one
// that net/http refuses. net/http finds the state of a *tls.Conn, and gets one as it is that has agreed on another
// protocol, or whose handshake has failed.
func NewRequests(nc net.Conn, remote net.Addr, early []byte, broken error) net.Conn {
	t, ok := nc.(*tls.Conn)
	if ok && len(early) == 0 {
		if s := t.ConnectionState(); !s.HandshakeComplete || s.NegotiatedProtocol != "" && s.NegotiatedProtocol != "http/1.1" {
			return t
		}
	}
	r := &replay{Conn: nc, remote: remote, early: early, broken: broken, filter: new(smuggling.Filter)}
	if ok {
		return &secureReplay{r, t}
	}
	return r
}

func (r *replay) RemoteAddr() net.Addr { return r.remote }

func (r *replay) Read(p []byte) (int, error) {
	for {
		n, waiting, err := r.read(p)
		if n == 0 || r.filter == nil {
			return n, err
		}
		if n = r.judge(p[:n], waiting); n > 0 {
			return n, err
		}
	}
}

// read reads bytes that were not judged. If waiting is true, the filter lets them wait, and there is only one.
func (r *replay) read(p []byte) (n int, waiting bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting = r.filter != nil && r.filter.Waits(); waiting {
		p = p[:min(len(p), 1)]
	}
	switch {
	case len(r.early) > 0:
		n = copy(p, r.early)
		if r.early = r.early[n:]; len(r.early) == 0 {
			r.early = nil
		}
	case r.broken != nil:
		err = r.broken
	default:
		r.mu.Unlock()
		n, err = r.Conn.Read(p)
		r.mu.Lock()
	}
	return n, waiting, err
}

// judge returns how many of the bytes that were read the caller may have.
func (r *replay) judge(data []byte, waiting bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting && r.filter.Waits() {
		r.filter.Peek(data[0])
		return len(data)
	}
	n, verdict := r.filter.Pass(data)
	switch verdict {
	case smuggling.Waiting:
		r.early = append(bytes.Clone(data[n:]), r.early...)
	case smuggling.Refused:
		r.early, r.broken = []byte(smuggling.Refusal), io.EOF
	case smuggling.Broken:
		r.early, r.broken = nil, io.ErrUnexpectedEOF
	}
	return n
}

func (r *replay) Write(p []byte) (int, error) {
	if r.filter != nil {
		r.mu.Lock()
		if r.filter.Waits() && r.filter.Answer(p) == smuggling.Broken {
			r.early, r.broken = nil, io.ErrUnexpectedEOF
		}
		r.mu.Unlock()
	}
	return r.Conn.Write(p)
}

type secureReplay struct {
	*replay
	tls *tls.Conn
}

func (r *secureReplay) ConnectionState() tls.ConnectionState { return r.tls.ConnectionState() }

// Early returns the bytes after the request for another protocol, which net/http has not got.
func (r *replay) Early() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil
	}
	early := r.early
	r.early = nil
	return early
}

// Bare returns the connection beneath, for a handler that takes it from the server. Nil: early is not read, or nothing
// can follow.
func (r *replay) Bare() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.early) > 0 || r.broken != nil {
		return nil
	}
	return r.Conn
}

func (r *replay) CloseWrite() error {
	if c, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
