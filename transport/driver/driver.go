// Package driver serves the connections of transports outside this module, in the ways of the transports of this module:
// on a loop of the node, or with goroutines. A transport writes a transport.Endpoint, which knows the protocol and does
// no I/O. The driver owns the connection, the bytes that the client has not taken, pauses, deadlines and the end.
package driver

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// handshakeTimeout bounds the handshake of TLS.
const handshakeTimeout = 10 * time.Second

// Serve gives a connection to a, which is a node usually, and serves it with e until its end. It returns at once, and any
// goroutine may call it. conn, e and early belong to the driver from now on: it closes conn, and it calls e.Release last,
// also if a does not accept the connection. Each connection has an endpoint of its own.
//
// ctx is for a.Accept; its end does not end the connection. An empty info.RemoteAddr becomes the remote address of conn. early has the
// bytes that were read from conn already; nil: there are none.
//
// The connection lives on a loop of the node if conn is a TCP or Unix socket, or a TLSServer above one, and loops watch
// sockets on the system (Linux). There it has no goroutine, and no buffer while it is idle: it takes about 100 bytes
// besides e. The loop calls e, whose methods must not block. Any other connection has a goroutine that reads, and one that
// writes while the client is slow. Config.GoroutineDriver of the node asks for goroutines everywhere. A type around a
// socket is no socket, unless its method Bare() net.Conn returns the socket, which is then used in its place.
//
// If conn is a *tls.Conn whose handshake is not over, a goroutine does it first. If it fails or takes more than 10 s,
// conn is closed, and a does not hear of it. Serve bounds no number of handshakes: the caller bounds the connections that
// it accepts, as for every listener.
//
// Peer.Closed gets the first Cause of a transport.Step. If the connection breaks before, it gets another error, which wraps
// protocol.DisconnectWriteError if writing failed or took longer than Timeouts.Write. If a refuses the connection, e.Fail
// gets the protocol.Disconnect of the error, or protocol.DisconnectServerError.
func Serve(ctx context.Context, a transport.Acceptor, conn net.Conn, e transport.Endpoint, info transport.Info, early []byte) {
	if info.RemoteAddr == "" {
		if addr := conn.RemoteAddr(); addr != nil { // package net returns nil if the client has gone
			info.RemoteAddr = addr.String()
		}
	}
	c := driver.Candidate{Ctx: ctx, Info: info, Early: early}
	if t, ok := conn.(*tls.Conn); ok && !t.ConnectionState().HandshakeComplete {
		go secure(a, t, e, c)
		return
	}
	driver.Serve(a, netio.NewStream(conn), endpoint{e}, c)
}

// secure is Serve after the handshake.
func secure(a transport.Acceptor, t *tls.Conn, e transport.Endpoint, c driver.Candidate) {
	ctx, cancel := context.WithTimeout(c.Ctx, handshakeTimeout)
	defer cancel()
	if t.HandshakeContext(ctx) != nil {
		_ = t.Close()
		e.Release()
		return
	}
	driver.Serve(a, netio.NewStream(t), endpoint{e}, c)
}

// TLSServer does what tls.Server does. Serve can put its connections on loops, unlike those of package tls.
func TLSServer(conn net.Conn, config *tls.Config) *tls.Conn {
	return netio.NewTLS(conn, config).Conn()
}

// endpoint is the type that the driver makes connections for.
type endpoint struct{ transport.Endpoint }
