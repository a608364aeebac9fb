package front

import (
	"crypto/tls"
	"net"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

// incoming is a connection on its way to net/http, or to a goroutine of the front.
type incoming struct {
	conn    net.Conn        // nil: it has yet to be made of socket
	socket  *netio.Handover // nil: there is conn
	remote  net.Addr        // known also if the peer has gone meanwhile
	early   []byte
	broken  error      // the error of reads after early; nil: they read from conn
	tls     *netio.TLS // has yet to be put on conn; nil: there is none, or conn is a *tls.Conn
	raw     []byte     // bytes that were read beneath tls
	secured bool       // the front has done the handshake on a goroutine
	// mayAnswer: the first request may be for a route with Answer.
	mayAnswer bool
}

func newIncoming(s netio.Socket, early []byte, mayAnswer bool) *incoming {
	return &incoming{
		socket: netio.NewHandover(s.FD), remote: net.TCPAddrFromAddrPort(s.Remote), early: early, mayAnswer: mayAnswer,
	}
}

func (in *incoming) secure() {
	if in.tls != nil {
		in.conn = in.tls.Block(netio.NewReplay(in.conn, in.remote, in.raw, nil))
		in.tls, in.raw = nil, nil
	}
}

func (in *incoming) unsecured() bool {
	c, ok := in.conn.(*tls.Conn)
	return ok && !c.ConnectionState().HandshakeComplete
}

func (in *incoming) convert(s *netio.Spare) (err error) {
	if in.conn == nil {
		in.conn, err = s.Conn(in.socket)
	}
	return err
}

func (in *incoming) close() {
	if in.conn != nil {
		_ = in.conn.Close()
		return
	}
	in.socket.Close()
}
