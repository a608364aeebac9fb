package app

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
)

// reserveSize is how many connections a reserve can accept when the process has no
// descriptors left.
const reserveSize = 16

// reserve is a listener that keeps file descriptors back. Operators can connect to it when
// clients use all other descriptors that the process may have. It is for TCP listeners that
// serve short requests.
type reserve struct {
	net.Listener
	mu     sync.Mutex
	closed bool
	held   []*os.File // at most reserveSize
}

func newReserve(ln net.Listener) *reserve {
	r := &reserve{Listener: ln}
	r.fill()
	return r
}

// fill opens descriptors until it holds reserveSize, and reports false if the system gives
// out fewer.
func (r *reserve) fill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed && len(r.held) < reserveSize {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false
		}
		r.held = append(r.held, f)
	}
	return true
}

// spend closes one descriptor, so that a connection can have it. It reports false if none is
// held.
func (r *reserve) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.held) - 1
	if last < 0 {
		return false
	}
	_ = r.held[last].Close()
	r.held = r.held[:last]
	return true
}

// Accept implements net.Listener.
func (r *reserve) Accept() (net.Conn, error) {
	for {
		nc, err := r.Listener.Accept()
		switch tcp, isTCP := nc.(*net.TCPConn); {
		case err == nil && (r.fill() || !isTCP):
			return nc, nil
		case err == nil:
			return &borrower{TCPConn: tcp, reserve: r}, nil
		case !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE), !r.spend():
			return nil, err
		}
	}
}

// Close implements net.Listener.
func (r *reserve) Close() error {
	r.mu.Lock()
	r.closed = true
	for _, f := range r.held {
		_ = f.Close()
	}
	r.held = nil
	r.mu.Unlock()
	return r.Listener.Close()
}

// borrower is a connection that uses a descriptor of the reserve, and refills the reserve
// when it closes.
type borrower struct {
	*net.TCPConn
	reserve *reserve
}

// Close implements net.Conn.
func (b *borrower) Close() error {
	err := b.TCPConn.Close()
	b.reserve.fill()
	return err
}
