package netio

import (
	"net"
	"net/netip"
	"os"
)

// Socket is a connection that was accepted: a non-blocking descriptor, which
// belongs to whoever has the Socket, and the address of the peer.
type Socket struct {
	FD     uintptr
	Remote netip.AddrPort
}

// Handover is a descriptor on its way to Go's runtime. It has one owner.
type Handover struct {
	fd   uintptr
	file *os.File // nil before the first attempt
}

// NewHandover takes fd over.
func NewHandover(fd uintptr) *Handover { return &Handover{fd: fd} }

// Conn makes a connection of the descriptor. If it fails, for example for want of
// another descriptor, it may be called again. The connection does not know the address
// of a peer that has gone meanwhile.
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
