// Package driver serves the connections of transports outside this module, as those of this module: on a loop of the
// node, or with goroutines. A transport writes a transport.Endpoint, which knows the protocol and does no I/O. The
// driver owns the connection, the bytes that the client has not taken, pauses, deadlines and the end.
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

const handshakeTimeout = 10 * time.Second

// Serve gives a connection to a, usually a node, and serves it with e until its end. It returns at once, and any
// goroutine may call it. It owns conn, e and early: it closes conn, and calls e.Release last, also if a does not
// accept the connection. Each connection has an endpoint of its own.
//
// ctx is for a.Accept; its end does not end the connection. An empty info.RemoteAddr becomes that of conn. early has
// bytes that were read already, or is nil.
//
// The connection lives on a loop of the node if conn is a TCP or Unix socket, or a TLSServer above one, and loops
// watch sockets (Linux): it has no goroutine, and while it is idle no buffer, and takes about 100 bytes besides e.
// The loop calls e, whose methods must not block. Any other connection has a goroutine that reads, and one that
// writes while the client is slow; so has every connection with Config.GoroutineDriver of the node. A type around a
// socket is no socket, unless its method Bare() net.Conn returns the socket, which is used in its place.
//
// If conn is a *tls.Conn before its handshake, a goroutine does that first. If it fails or takes more than 10 s, conn
// is closed, and a does not hear of it. Serve bounds no number of handshakes: the caller bounds the connections that
// it accepts.
//
// Peer.Closed gets the first Cause of a transport.Step. If the connection breaks before, it gets another error, which
// wraps protocol.DisconnectWriteError if writing failed or took longer than Timeouts.Write. If a refuses the
// connection, e.Fail gets the protocol.Disconnect of the error, or protocol.DisconnectServerError.
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

// TLSServer is tls.Server for connections that Serve can put on loops.
func TLSServer(conn net.Conn, config *tls.Config) *tls.Conn {
	return netio.NewTLS(conn, config).Conn()
}

type endpoint struct{ transport.Endpoint }
