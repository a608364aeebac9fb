package netio

import (
	"net"
	"net/netip"
	"os"
)

// Socket is an accepted connection: a non-blocking descriptor, which belongs to the owner of
// the Socket, and the address of the peer.
type Socket struct {
	FD     uintptr
	Remote netip.AddrPort
}

// Handover gives a descriptor of a socket to Go's runtime. It has one owner.
type Handover struct {
	fd   uintptr
	file *os.File // nil before the first call of Conn
}

// NewHandover returns a Handover of fd, which belongs to it from now on.
func NewHandover(fd uintptr) *Handover { return &Handover{fd: fd} }

// Conn makes a connection of the descriptor, and needs another descriptor for a moment. If it
// fails, it may be called again. The connection has no remote address if the peer has gone.
func (h *Handover) Conn() (net.Conn, error) {
	if h.file == nil {
		h.file = os.NewFile(h.fd, "socket")
	}
	nc, err := net.FileConn(h.file)
	if err == nil {
		_ = h.file.Close()
	}
	return nc, err
}

// Close closes the descriptor if it did not become a connection.
func (h *Handover) Close() {
	if h.file != nil {
		_ = h.file.Close()
		return
	}
	CloseFD(h.fd, false)
}
