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
	// Tried, if it is not nil, is called when connections were accepted, with nil, and when there was no descriptor for one, with
	// the error. Such an attempt is made again within a second. It is called by one goroutine at a time, and must not block.
	Tried func(err error)
}

// errNoRoom is the error of accept if there are no descriptors.
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

// tried tells of an attempt to accept.
func (s Sparing) tried(err error) {
	if s.Tried != nil && (err == nil || netio.IsShort(err)) {
		s.Tried(err)
	}
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
