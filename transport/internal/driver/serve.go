package driver

import (
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Serve serves a connection of net/http, and returns. It lives on a loop if the loops of a watch sockets and the stream
// is a socket, or a TLS of package netio above one, and else has goroutines.
func Serve[E any, P pointer[E]](a transport.Acceptor, stream netio.Stream, e E, n Candidate) {
	if loops := nodeaccess.Of(a); loops != nil {
		if l := loops.NextLoop(); l != nil {
			if fd, t, ok := netio.Detach(stream); ok {
				n.TLS = t
				NewLoopConn[E, P](l, fd, e).Post(loops, n)
				return
			}
		}
	}
	NewStreamConn[E, P](stream, e).Serve(a, n, true)
}
