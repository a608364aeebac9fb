package front

import (
	"net"
	"os"
	"syscall"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Sparing is a TCP listener that leaves descriptors to others: a program can keep some back for connections that matter
// more, or for files. Listen and ListenTLS serve it like a *net.TCPListener.
type Sparing struct {
	*net.TCPListener
	// Room reports whether the process can do without the descriptors that the listener has. One goroutine calls it
	// after connections were accepted. While it is false, the newest of them is closed. If none is left, Accept fails as
	// if there were no descriptors.
	Room func() bool
	// Tried, if not nil, is called with nil when connections were accepted, and with the error when there was no
	// descriptor for one, which is tried again within a second. One goroutine at a time calls it; it must not block.
	Tried func(err error)
}

var errNoRoom = os.NewSyscallError("accept4", syscall.EMFILE)

// Accept implements net.Listener.
func (s Sparing) Accept() (net.Conn, error) {
	nc, err := s.TCPListener.Accept()
	if err == nil && !s.Room() {
		_ = nc.Close()
		s.Room()
		nc, err = nil, &net.OpError{Op: "accept", Net: "tcp", Addr: s.Addr(), Err: errNoRoom}
	}
	s.tried(err)
	return nc, err
}

func (s Sparing) tried(err error) {
	if s.Tried != nil && (err == nil || netio.IsShort(err)) {
		s.Tried(err)
	}
}

func (s Sparing) makeRoom(sockets []netio.Socket) []netio.Socket {
	for s.Room != nil && !s.Room() && len(sockets) > 0 {
		last := len(sockets) - 1
		netio.CloseFD(sockets[last].FD, true)
		sockets = sockets[:last]
	}
	return sockets
}
