package netio

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
)

// Socket is a connection that was accepted: a non-blocking descriptor, which
// belongs to whoever has the Socket, and the address of the peer.
type Socket struct {
	FD     uintptr
	Remote netip.AddrPort
}

// Handover is a socket on its way to Go's runtime, with the bytes that were
// read from it. It has one owner.
type Handover struct {
	socket Socket
	early  []byte
	file   *os.File // nil before the first attempt
}

// NewHandover takes s and early over.
func NewHandover(s Socket, early []byte) *Handover { return &Handover{socket: s, early: early} }

// Conn makes a connection of which early is read first. If it fails, for example
// for want of a descriptor, it may be called again.
func (h *Handover) Conn() (net.Conn, error) {
	if h.file == nil {
		h.file = os.NewFile(h.socket.FD, "socket")
	}
	nc, err := net.FileConn(h.file)
	if err != nil {
		return nil, err
	}
	_ = h.file.Close()
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		_ = nc.Close()
		return nil, net.UnknownNetworkError(nc.LocalAddr().Network())
	}
	r := &replay{TCPConn: tcp, remote: net.TCPAddrFromAddrPort(h.socket.Remote), early: h.early}
	r.spent.Store(len(h.early) == 0)
	return r, nil
}

// Close closes the socket if it did not become a connection.
func (h *Handover) Close() {
	if h.file != nil {
		_ = h.file.Close()
		return
	}
	CloseFD(h.socket.FD, false)
}

// replay is a connection some bytes of which were read before.
type replay struct {
	*net.TCPConn
	remote net.Addr // also if the peer has gone meanwhile
	spent  atomic.Bool
	mu     sync.Mutex
	early  []byte
}

// RemoteAddr implements net.Conn.
func (r *replay) RemoteAddr() net.Addr { return r.remote }

// Read implements net.Conn.
func (r *replay) Read(p []byte) (int, error) {
	if n := r.take(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	return r.TCPConn.Read(p)
}

// Bare implements wrapper.
func (r *replay) Bare() net.Conn {
	if !r.spent.Load() {
		return nil
	}
	return r.TCPConn
}

// take reads from early.
func (r *replay) take(p []byte) int {
	if r.spent.Load() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := copy(p, r.early)
	if r.early = r.early[n:]; len(r.early) == 0 {
		r.early = nil
		r.spent.Store(true)
	}
	return n
}

// WriteTo implements io.WriterTo.
func (r *replay) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	early := r.early
	r.early = nil
	r.spent.Store(true)
	r.mu.Unlock()
	n, err := w.Write(early)
	if err != nil {
		return int64(n), err
	}
	more, err := r.TCPConn.WriteTo(w)
	return int64(n) + more, err
}
