package front

import (
	"net"
	"os"
	"syscall"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Sparing is a TCP listener that leaves descriptors to others: a program can keep some back for
// connections that matter more, or for files. Listen and ListenTLS serve it as they serve a
// *net.TCPListener.
type Sparing struct {
	*net.TCPListener
	// Room reports whether the process can do without the descriptors that the listener has. It is
	// called after connections were accepted, by one goroutine. While it reports false, the newest of
	// them is closed. If none is left, Accept fails as if there were no descriptors.
	Room func() bool
}

// errNoRoom is what accept returns if there are no descriptors.
var errNoRoom = os.NewSyscallError("accept4", syscall.EMFILE)

// Accept implements net.Listener.
func (s Sparing) Accept() (net.Conn, error) {
	nc, err := s.TCPListener.Accept()
	if err != nil || s.Room() {
		return nc, err
	}
	_ = nc.Close()
	s.Room()
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: s.Addr(), Err: errNoRoom}
}

// spare closes the newest of the sockets until there is room, and returns the others.
func (s Sparing) spare(sockets []netio.Socket) []netio.Socket {
	for s.Room != nil && !s.Room() && len(sockets) > 0 {
		last := len(sockets) - 1
		netio.CloseFD(sockets[last].FD, true)
		sockets = sockets[:last]
	}
	return sockets
}
