package netio

import (
	"net"
	"net/netip"
	"os"
	"time"
)

// keepIdle is the silence after which the kernel asks whether a client is still there, for connections without pings
// (every 25 s), and to keep their entries in NATs. With less than 25 s, the kernel would ask every idle client.
const keepIdle = 120 * time.Second

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: 15 * time.Second, Count: 9}

// Socket is an accepted connection: a non-blocking descriptor, which its owner closes, and the address of the peer.
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

// Conn makes a connection, for which it needs another descriptor for a moment. If it fails, it may be called again. The
// connection has no remote address if the peer has gone.
func (h *Handover) Conn() (net.Conn, error) {
	if h.file == nil {
		h.file = os.NewFile(h.fd, "socket")
	}
	nc, err := net.FileConn(h.file)
	if err != nil {
		return nil, err
	}
	_ = h.file.Close()
	if tcp, ok := nc.(*net.TCPConn); ok { // FileConn has set the idle time of package net
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: -1, Count: -1})
	}
	return nc, nil
}

// Close closes the descriptor if it did not become a connection.
func (h *Handover) Close() {
	if h.file != nil {
		_ = h.file.Close()
		return
	}
	CloseFD(h.fd, false)
}
